// Chance where the order of a sum is not known: orders of other kernels over data that the energy of
// the order 0, 1, 2 ... does not cover.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "bounds/examples/example.hpp"
#include "bounds/on_machine.hpp"
#include "bounds/sum.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::any_order_test {
namespace {

// Terms of alternating sign, each about 1: no partial sum of the order 0, 1, 2 ... is above 2.
Example alternating(std::size_t k, unsigned seed) {
  Draw draw("plain", seed);
  Example e{"gemm",
            {Matrix<double>(4, k), Matrix<double>(k, 4)},
            {{"transpose_a", 0}, {"transpose_b", 0}},
            {1, fp32, fp32}};
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t l = 0; l < k; ++l) {
      const double size = 1 + 0.01 * draw.uniform();
      e.inputs[0](i, l) = static_cast<double>(static_cast<float>(l % 2 == 0 ? size : -size));
      e.inputs[1](l, i) = static_cast<double>(static_cast<float>(1 + 0.01 * draw.uniform()));
    }
  }
  return e;
}

// Lanes of fused chains, added one after the other; the terms in an order of one's own.
Matrix<float> in_lanes(const Example& e, std::size_t lanes, const std::vector<std::size_t>& order) {
  const auto &a = e.inputs[0], &b = e.inputs[1];
  Matrix<float> c(a.rows, b.cols);
  for (std::size_t i = 0; i < c.rows; ++i) {
    for (std::size_t j = 0; j < c.cols; ++j) {
      std::vector<float> sums(lanes);
      for (std::size_t l = 0; l < order.size(); ++l) {
        const std::size_t k = order[l];
        sums[l % lanes] =
            std::fma(static_cast<float>(a(i, k)), static_cast<float>(b(k, j)), sums[l % lanes]);
      }
      c(i, j) = std::accumulate(sums.begin(), sums.end(), 0.0F);
    }
  }
  return c;
}

std::size_t outside(const Example& e, const Matrix<float>& c) {
  Comparison verdict;
  judge(e, {c}, verdict, Mode::probabilistic, 1e-9);
  return verdict.violations;
}

TEST(ByChanceInAnyOrder, HoldsInOrdersThatOneOrdersEnergyDoesNotCover) {
  std::size_t beyond_one_order = 0;
  for (int seed = 1; seed <= std::max(8, effort(8)); ++seed) {
    Example e = alternating(4096, static_cast<unsigned>(seed));
    std::vector<std::size_t> as_they_come(4096), positives_first;
    std::iota(as_they_come.begin(), as_they_come.end(), std::size_t(0));
    for (const std::size_t first : {0, 1}) {
      for (std::size_t k = first; k < 4096; k += 2) positives_first.push_back(k);
    }
    const Matrix<float> computed[] = {in_lanes(e, 16, as_they_come), in_lanes(e, 256, as_they_come),
                                      in_lanes(e, 1, positives_first),
                                      in_lanes(e, 8, positives_first)};
    for (const Matrix<float>& c : computed) {
      e.sums = {SumsIn::Way::any, {}};
      EXPECT_EQ(outside(e, c), 0U) << seed;
      e.sums = {};
      beyond_one_order += outside(e, c);
    }
  }
  EXPECT_GT(beyond_one_order, 0U) << "the order 0, 1, 2 ... would do";
}

TEST(ByChanceInAnyOrder, IsWhatACardAsksForThatKnowsNoOrder) {
  const Example e = alternating(512, 1);
  const auto values = value_of(e);
  const ToleranceCall call{{&e.inputs[0], &e.inputs[1]}, e.attributes, e.how,
                           Mode::probabilistic,          1e-9,         values};
  const auto on_card = tolerance_on(*find_machine("ieee"), e.operation(), call, fp32);
  ToleranceCall any = call;
  any.sums = {SumsIn::Way::any, {}};
  ASSERT_TRUE(on_card);
  EXPECT_GT(on_card->bound[0].values[0], e.operation().tolerance(call)->bound[0].values[0]);
  EXPECT_GE(on_card->bound[0].values[0], e.operation().tolerance(any)->bound[0].values[0]);
  EXPECT_EQ(assumptions(*find_machine("ieee"), e.operation(), Mode::probabilistic),
            "sums in any order");
}

// Sums over tokens: the positive ones first, as no chance of the order 0, 1, 2 ... has it.
TEST(ByChanceInAnyOrder, OfATableOfSumsHoldsToo) {
  std::size_t beyond_one_order = 0;
  for (int seed = 1; seed <= std::max(8, effort(8)); ++seed) {
    Draw draw("plain", static_cast<unsigned>(seed));
    Example e{"column_sum", {Matrix<double>(4096, 4)}, {}, {1, fp32, fp32}};
    Matrix<float> sums(4, 1);
    for (const std::size_t first : {0, 1}) {
      for (std::size_t t = first; t < 4096; t += 2) {
        for (std::size_t j = 0; j < 4; ++j) {
          const auto x = static_cast<float>((first == 0 ? 1 : -1) * (1 + 0.01 * draw.uniform()));
          e.inputs[0](t, j) = static_cast<double>(x);
          sums.values[j] += x;
        }
      }
    }
    const auto shape = value_of(e)[0];
    sums.rows = shape.rows;
    sums.cols = shape.cols;
    beyond_one_order += outside(e, sums);
    e.sums = {SumsIn::Way::any, {}};
    EXPECT_EQ(outside(e, sums), 0U) << seed;
  }
  EXPECT_GT(beyond_one_order, 0U);
}

// One, and 4096 times a little more than half of its spacing: chance has no part in what each loses.
TEST(ByChanceInAnyOrder, CountsWhatVanishesAsAWorstCase) {
  SumInAnyOrder sum;
  sum.add(1);
  for (int i = 0; i < 4096; ++i) sum.add(static_cast<double>(0x1.002p-24F));
  EXPECT_GE(sum.total().drift, 4000 * 0x1p-24);
}

// Far tighter than the worst case, where data do not depend on each other.
TEST(ByChanceInAnyOrder, IsTighterThanTheWorstCase) {
  Draw draw("plain", 2);
  Example e{"gemm",
            {draw.matrix(4, 4096), draw.matrix(4096, 4)},
            {{"transpose_a", 0}, {"transpose_b", 0}},
            {1, fp32, fp32}};
  e.sums = {SumsIn::Way::any, {}};
  EXPECT_LT(8 * tolerance_of(e, Mode::probabilistic, 1e-9)->bound[0].values[0],
            tolerance_of(e)->bound[0].values[0]);
}

}  // namespace
}  // namespace plumb::any_order_test
