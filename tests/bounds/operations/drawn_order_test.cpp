// Where nobody knows in which order a product adds its terms: does each draw have one, any of all, and
// the same for all elements? (twins.md M9)
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "bounds/examples/example.hpp"
#include "bounds/multiply.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::drawn_order_test {
namespace {

Matrix<double> row(Matrix<double>::Numbers values) {
  Matrix<double> m(1, values.size());
  m.values = std::move(values);
  return m;
}

Matrix<double> ones(std::size_t n) {
  Matrix<double> m(n, 1);
  std::ranges::fill(m.values, 1);
  return m;
}

Tensor drawn(Example e, std::uint64_t key) {
  e.how.any_order = true;
  e.how.order_key = key;
  return evaluation_of(e)[0];
}

// Sums that these numbers have, one added after the other.
std::set<float> sums_in_any_order(std::vector<float> terms) {
  std::set<float> all;
  std::ranges::sort(terms);
  do {
    float sum = 0;
    for (const float t : terms) sum += t;
    all.insert(sum);
  } while (std::ranges::next_permutation(terms).found);
  return all;
}

const Matrix<double>::Numbers uneven{1, 0x1p-24, 0x1.8p-24, -1, 0x1p-25};

Example sum_of_uneven() {
  return {"gemm", {row(uneven), ones(5)}, {{"transpose_a", 0}, {"transpose_b", 0}}, {}};
}

TEST(DrawnOrder, IsAnyOfAllOrders) {
  const auto all = sums_in_any_order({uneven.begin(), uneven.end()});
  ASSERT_GT(all.size(), 5U);
  std::set<float> found;
  for (std::uint64_t key = 1; key <= 1000; ++key) {
    found.insert(drawn(sum_of_uneven(), key).values[0]);
  }
  EXPECT_EQ(found, all);
}

TEST(DrawnOrder, WithoutADrawIsTheChainThatIsPromised) {
  EXPECT_EQ(drawn(sum_of_uneven(), 0), evaluation_of(sum_of_uneven())[0]);
}

TEST(DrawnOrder, IsTheSameForAllElementsAndInEveryTransposition) {
  Draw numbers("plain", 3);
  const Matrix<double> a = numbers.matrix(4, 37, bf16), b = numbers.matrix(37, 6, bf16);
  const auto transposed = [](const Matrix<double>& x) {
    Matrix<double> t(x.cols, x.rows);
    for (std::size_t i = 0; i < x.rows; ++i) {
      for (std::size_t j = 0; j < x.cols; ++j) t(j, i) = x(i, j);
    }
    return t;
  };
  const Example whole{"gemm", {a, b}, {{"transpose_a", 0}, {"transpose_b", 0}}, {}};
  const Example other{
      "gemm", {transposed(a), transposed(b)}, {{"transpose_a", 1}, {"transpose_b", 1}}, {}};
  Example last = whole;
  last.inputs = {row({a.row(3), a.row(3) + 37}), b};
  const Tensor c = drawn(whole, 7), c_last = drawn(last, 7);
  EXPECT_EQ(c, drawn(other, 7));
  EXPECT_TRUE(std::equal(c_last.values.begin(), c_last.values.end(), c.row(3)));
  EXPECT_NE(c, drawn(whole, 8));
  EXPECT_NE(c, evaluation_of(whole)[0]);
}

TEST(DrawnOrder, StaysWithinTheBoundOfAnyOrder) {
  for (const char* id : {"gemm", "batched_gemm", "grouped_gemm", "grouped_wgrad"}) {
    std::size_t moved = 0;
    for (unsigned seed = 1; seed <= 20; ++seed) {
      Draw numbers("plain", seed);
      const Example e = example_of(id, numbers);
      const auto tolerance = tolerance_of(e);
      ASSERT_TRUE(tolerance);
      const auto value = value_of(e);
      Example now = e;
      now.how.any_order = true;
      now.how.order_key = seed;
      const auto made = evaluation_of(now), promised = evaluation_of(e);
      for (std::size_t o = 0; o < made.size(); ++o) {
        moved += made[o] != promised[o];
        for (std::size_t i = 0; i < made[o].size(); ++i) {
          ASSERT_LE(std::abs(made[o].values[i] - value[o].values[i]), tolerance->bound[o].values[i])
              << id << " " << seed;
        }
      }
    }
    EXPECT_GT(moved, 0U) << id;  // each of them draws
  }
}

TEST(DrawnOrder, IsDrawnForEachPartAnew) {
  Example e = sum_of_uneven();
  Matrix<double>::Numbers twice = uneven;
  twice.insert(twice.end(), uneven.begin(), uneven.end());
  e.inputs = {row(twice), ones(10)};
  e.how.parts = 2;
  const auto one = sums_in_any_order({uneven.begin(), uneven.end()});
  std::set<float> alike, found;
  for (const float x : one) alike.insert(x + x);
  for (std::uint64_t key = 1; key <= 100; ++key) found.insert(drawn(e, key).values[0]);
  EXPECT_FALSE(std::ranges::includes(alike, found));
}

// A matrix unit takes the terms in the order that is drawn.
TEST(DrawnOrder, ComesBeforeTheMachineMultiplies) {
  std::vector<float> taken;
  const Multiply unit = [&](View<float> a, View<float> b) -> std::optional<Tensor> {
    for (std::size_t k = 0; k < a.cols; ++k) taken.push_back(a(0, k) * b(k, 0));
    return {};
  };
  const MultiplyScope scope(&unit);
  drawn(sum_of_uneven(), 5);
  EXPECT_FALSE(std::equal(taken.begin(), taken.end(), uneven.begin()));
  EXPECT_TRUE(std::is_permutation(taken.begin(), taken.end(), uneven.begin()));
}

}  // namespace
}  // namespace plumb::drawn_order_test
