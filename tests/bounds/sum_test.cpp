// Do bounds for sums in any order hold in the orders of other kernels, and those for an order in it?
#include "bounds/sum.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

#include "bounds/examples/example.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::sum_test {
namespace {

using Way = SumsIn::Way;

// A random tree over shuffled terms; products are rounded, or fused into a sum of one term.
float by_a_random_tree(std::vector<std::pair<float, float>> terms, bool fused,
                       std::mt19937& random) {
  std::ranges::shuffle(terms, random);
  std::vector<float> sums;
  for (const auto& [a, b] : terms) {
    const bool joins = fused && !sums.empty() && random() % 2 == 0;
    if (joins) {
      float& other = sums[random() % sums.size()];
      other = std::fma(a, b, other);
    } else {
      sums.push_back(a * b);
    }
  }
  while (sums.size() > 1) {
    std::swap(sums[random() % sums.size()], sums.back());
    const float last = sums.back();
    sums.pop_back();
    sums[random() % sums.size()] += last;
  }
  return sums.front();
}

TEST(SumInAnyOrder, HoldsInRandomTrees) {
  for (const char* kind : input_kinds) {
    for (int seed = 1; seed <= effort(60); ++seed) {
      Draw draw(kind, static_cast<unsigned>(seed));
      std::mt19937 random(static_cast<unsigned>(seed));
      const std::size_t n = draw.between(1, 300);
      const bool products = draw.coin();
      const Matrix<double> x = draw.matrix(n, 2);
      SumInAnyOrder bound;
      std::vector<std::pair<float, float>> terms;
      BigFloat truth = 0;
      for (std::size_t i = 0; i < n; ++i) {
        const double a = x(i, 0), b = products ? x(i, 1) : 1;
        terms.emplace_back(static_cast<float>(a), static_cast<float>(b));
        products ? bound.add_product(a, b) : bound.add(a);
        truth = truth + BigFloat(a) * BigFloat(b);
      }
      const RunningError total = bound.total();
      if (!std::isfinite(total.worst())) continue;  // beyond FP32
      for (int tree = 0; tree < 8; ++tree) {
        const float sum = by_a_random_tree(terms, products && tree % 2 == 0, random);
        const double off = truth.distance_from(static_cast<double>(sum));
        const double judge = truth.distance_from(total.value);
        ASSERT_LE(off, total.worst() + judge) << kind << " " << seed << " n " << n;
      }
    }
  }
}

// One, and what is a little more than half of its spacing: each addition rounds up by nearly as much.
TEST(SumInAnyOrder, IsNoWiderThanItMustBe) {
  SumInAnyOrder bound;
  float chain = 1;
  const float x = 0x1.002p-24F;
  bound.add(1);
  for (int i = 0; i < 4096; ++i) {
    bound.add(static_cast<double>(x));
    chain += x;
  }
  const RunningError total = bound.total();
  const double error = std::fabs(static_cast<double>(chain) - total.value);
  EXPECT_LE(error, total.worst());
  EXPECT_GT(error, 0.9 * total.worst());
}

TEST(SumInAnyOrder, OfNothingIsExactWhereSubnormalsAreFlushed) {
  Arithmetic flushing;
  flushing.flushes = true;
  const ArithmeticScope scope(flushing);
  for (const Format& kept : {fp32, bf16}) EXPECT_EQ(SumInAnyOrder(kept).total().worst(), 0);
  SumInAnyOrder two;
  two.add(0x1p-125);
  two.add(-0x1.8p-125);
  EXPECT_GE(two.total().worst(), 0x1p-126);
}

class Orders : public testing::TestWithParam<const Operation*> {
 protected:
  static constexpr std::array orders{Order{Order::Kind::sequential, 0},
                                     Order{Order::Kind::pairwise, 0},
                                     Order{Order::Kind::blocked, 2}, Order{Order::Kind::blocked, 3},
                                     Order{Order::Kind::blocked, 8}};

  static Example example(std::string_view kind, int seed) {
    Draw draw(kind, 40'000 + static_cast<unsigned>(seed));
    return example_of(*GetParam(), draw);
  }
};

TEST_P(Orders, StayWithinTheBoundOfAnyAndWithinTheirOwn) {
  std::size_t others = 0;  // evaluations with other bits than the promised one
  for (const char* kind : input_kinds) {
    for (int seed = 1; seed <= std::max(40, effort(40)); ++seed) {  // of other sizes
      Example e = example(kind, seed);
      const auto promised = evaluation_of(e);
      for (const Order& order : orders) {
        e.sums = {Way::ordered, order};
        const auto computed = evaluation_of(e);
        others += computed == promised ? 0 : 1;
        for (const Way way : {Way::ordered, Way::any}) {
          e.sums.way = way;
          Comparison verdict;
          judge(e, computed, verdict);
          EXPECT_EQ(verdict.violations, 0U) << kind << " " << seed << " " << verdict.largest_ratio;
        }
      }
    }
  }
  EXPECT_GT(others, 0U) << "asked for another order, it takes its own";
}

// By chance, in an order that is known. Where none is, the worst case stands for chance.
TEST_P(Orders, HaveBoundsByChanceAndMomentsWhereTheyAreKnown) {
  for (int seed = 1; seed <= 6; ++seed) {
    Example e = example("plain", seed);
    e.sums = {Way::any, {}};
    const auto surely = tolerance_of(e), seldom = tolerance_of(e, Mode::probabilistic);
    EXPECT_FALSE(tolerance_of(e, Mode::moments));
    if (surely && seldom) {
      for (std::size_t i = 0; i < surely->bound[0].size(); ++i) {
        EXPECT_LE(seldom->bound[0].values[i], surely->bound[0].values[i]);
      }
    }
    e.sums = {Way::ordered, {Order::Kind::pairwise, 0}};
    Comparison verdict;
    judge(e, evaluation_of(e), verdict, Mode::probabilistic, 1e-9);
    EXPECT_EQ(verdict.violations, 0U);
  }
}

std::vector<const Operation*> asked() {
  std::vector<const Operation*> all;
  for (const Operation* operation : all_operations()) {
    if (operation->sums_as_asked) all.push_back(operation);
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Bounds, Orders, testing::ValuesIn(asked()),
                         [](const auto& p) { return std::string(p.param->id); });

}  // namespace
}  // namespace plumb::sum_test
