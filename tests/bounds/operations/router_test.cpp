#include "bounds/operations/router.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "bounds/examples/example.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::router_test {
namespace {

Example routed(const Matrix<double>& logits, std::size_t k) {
  return {"router", {logits}, {{"k", static_cast<double>(k)}}, {1, fp32, fp32}};
}

// The experts chosen, as a set of bits: k at most 8 of 32.
std::uint32_t choice(const double* x, std::size_t n, std::size_t k) {
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return x[a] > x[b]; });
  std::uint32_t chosen = 0;
  for (std::size_t i = 0; i < k; ++i) chosen |= 1U << order[i];
  return chosen;
}

TEST(Router, SaysByHowMuchTheChoiceWasDecided) {
  Matrix<double> x(1, 4);
  x.values = {0.5, 3, -1, 2.25};
  EXPECT_EQ(value_of(routed(x, 1))[1].values[0], 0.75);
  EXPECT_EQ(value_of(routed(x, 2))[1].values[0], 1.75);
  EXPECT_EQ(value_of(routed(x, 3))[1].values[0], 1.5);
  const auto p = value_of(routed(x, 2))[0];
  EXPECT_NEAR(std::accumulate(p.values.begin(), p.values.end(), 0.0), 1, 1e-15);
  EXPECT_NEAR(p.values[1] / p.values[3], std::exp(0.75), 1e-14);
  for (const std::size_t k : {std::size_t{0}, std::size_t{4}}) {
    EXPECT_THROW((void)evaluation_of(routed(x, k)), std::invalid_argument);
  }
}

// Errors of the logits as large as allowed never change a decided row's choice, and do change some
// undecided one's; logits that oppose each other are the worst.
TEST(Router, OnlyUndecidedRowsMayChooseOtherwise) {
  std::size_t changed = 0, open = 0, rows = 0;
  for (int seed = 1; seed <= effort(40); ++seed) {
    Draw draw("plain", static_cast<unsigned>(seed));
    const Matrix<double> x = draw.moderate(64, 16, 1);
    const std::size_t k = 1 + draw.between(0, 7);
    const double error = 0.01;
    const Example e = routed(x, k);
    const auto margins = converted<double>(evaluation_of(e)[1]);
    const auto t = tolerance_of(e);
    ASSERT_TRUE(t);
    const auto rows_open = undecided(margins, Matrix<double>(64, 1, error), t->bound[1]);
    open += rows_open.size();
    rows += 64;
    for (std::size_t i = 0; i < 64; ++i) {
      const std::uint32_t before = choice(x.row(i), 16, k);
      Matrix<double> moved(1, 16);
      for (std::size_t j = 0; j < 16; ++j) {
        moved.values[j] = x(i, j) + (before >> j & 1U ? -error : error);
      }
      if (choice(moved.row(0), 16, k) == before) continue;
      ++changed;
      ASSERT_TRUE(std::ranges::find(rows_open, i) != rows_open.end()) << seed << " row " << i;
    }
  }
  EXPECT_EQ(changed, open);  // this move is the worst: whoever is open is changed by it
  EXPECT_GT(changed, rows / 50);
  EXPECT_LT(open, rows / 4);
}

// A computed margin may be rounded up: the rows between are undecided, too.
TEST(Router, TheMarginsOwnRoundingCounts) {
  Matrix<double> x(1, 2);
  x.values = {1 + 0x1p-23, -0x1p-24};  // their difference is a tie, rounded up to 1 + 2^-22
  const Example e = routed(x, 1);
  const auto margin = converted<double>(evaluation_of(e)[1]);
  const auto t = tolerance_of(e);
  const double exact = x.values[0] - x.values[1];
  ASSERT_GT(margin.values[0], exact);
  const Matrix<double> error(1, 1, exact / 2);  // just enough to make them meet
  EXPECT_EQ(undecided(margin, error, t->bound[1]).size(), 1U);
  EXPECT_EQ(undecided(margin, error, Matrix<double>(1, 1)).size(), 0U);
  EXPECT_EQ(undecided(margin, Matrix<double>(1, 1, 0.4), t->bound[1]).size(), 0U);
  EXPECT_THROW(undecided(margin, Matrix<double>(2, 1), t->bound[1]), std::invalid_argument);
}

}  // namespace
}  // namespace plumb::router_test
