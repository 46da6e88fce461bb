// Do bounds of sums over ranks hold whatever order they add in, and is none of their terms idle?
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "bounds/examples/example.hpp"
#include "bounds/tolerance.hpp"
#include "number/rounding.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::rank_order_test {
namespace {

// Adds two of the parts, drawn, until one is left; each sum is rounded to the wire, or, as switches
// do, only the last.
float by_a_random_tree(std::vector<float> parts, const Format& wire, bool each,
                       std::mt19937& random) {
  for (float& x : parts) x = round_to(x, wire);
  while (parts.size() > 1) {
    std::swap(parts[random() % parts.size()], parts.back());
    const float last = parts.back();
    parts.pop_back();
    float& other = parts[random() % parts.size()];
    other += last;
    if (each || parts.size() == 1) other = round_to(other, wire);
  }
  return parts.front();
}

// A sum with an input for each rank.
Example of_ranks(const char* kind, int ranks, const Format& wire, unsigned seed) {
  Example e{"sum", {}, {}, {ranks, wire, fp32}};
  e.how.any_rank_order = true;
  Draw draw(kind, seed);
  for (int r = 0; r < ranks; ++r) e.inputs.push_back(draw.matrix(4, 8));
  return e;
}

// The largest error over its bound, of the sum's first element, in random trees.
struct Seen {
  double largest = 0;
  bool bounded = true;
};
Seen seen_in(const Example& e, bool each, int trees, std::mt19937& random) {
  const auto t = tolerance_of(e);
  if (!t) return {0, false};
  const auto value = value_of(e)[0];
  Seen seen;
  for (std::size_t i = 0; i < value.size(); ++i) {
    std::vector<float> parts;
    for (const auto& x : e.inputs) parts.push_back(static_cast<float>(x.values[i]));
    for (int k = 0; k < trees; ++k) {
      const float y = by_a_random_tree(parts, e.how.wire, each, random);
      const double error = std::fabs(static_cast<double>(y) - value.values[i]);
      if (error > 0) seen.largest = std::max(seen.largest, error / t->bound[0].values[i]);
    }
  }
  return seen;
}

TEST(RanksInAnyOrder, StayWithinTheBoundInRandomTrees) {
  std::mt19937 random(1);
  int bounded = 0, all = 0;
  for (const Format& wire : {fp32, bf16, fp16}) {
    for (const bool each : {true, false}) {
      for (int seed = 1; seed <= effort(40); ++seed) {
        const char* kind = input_kinds[static_cast<std::size_t>(seed) % input_kinds.size()];
        const int ranks = 3 + static_cast<int>(random() % 14);
        const Seen seen =
            seen_in(of_ranks(kind, ranks, wire, static_cast<unsigned>(seed)), each, 20, random);
        ASSERT_LE(seen.largest, 1) << kind << " " << ranks << " ranks, " << wire.name;
        bounded += seen.bounded ? 1 : 0;
        ++all;
      }
    }
  }
  EXPECT_GT(4 * bounded, 3 * all);
}

// In rank order each of the small numbers is lost beside the large one; together they are not.
TEST(RanksInAnyOrder, LieBeyondTheBoundOfRankOrder) {
  Example e{"sum", {}, {}, {4, bf16, fp32}};
  for (const double x : {1.0, 1.0, 1.0, 256.0}) e.inputs.emplace_back(1, 1, x);
  const double backwards = std::fabs(256.0 - 259.0);  // 256 + 1 is no BF16 number
  EXPECT_LT(tolerance_of(e)->bound[0].values[0], backwards);
  e.how.any_rank_order = true;
  EXPECT_GE(tolerance_of(e)->bound[0].values[0], backwards);
  EXPECT_FALSE(tolerance_of(e, Mode::moments));
}

RunningError exactly(double x) { return RunningError::of(x); }
double worst_of(const std::vector<RunningError>& parts, const Format& wire) {
  std::vector<Matrix<RunningError>> all;
  for (const RunningError& x : parts) all.emplace_back(1, 1, x);
  return added_in_any_order(all, 0, wire).worst();
}

// 3 x is just above 4: both additions may lose half a spacing, the second one at 4.
TEST(RanksInAnyOrder, SumsInFp32NeedTheirShare) {
  double largest = 0;
  std::mt19937 random(2);
  std::uniform_real_distribution<float> drawn(4.0F / 3, 1.5F);
  for (int i = 0; i < 20000; ++i) {
    const float a = drawn(random), b = drawn(random), c = drawn(random);
    const double truth = static_cast<double>(a) + b + c;
    const double error = std::fabs(static_cast<double>((a + b) + c) - truth);
    const double bound = worst_of({exactly(a), exactly(b), exactly(c)}, fp32);
    ASSERT_LE(error, bound);
    largest = std::max(largest, error / bound);
  }
  EXPECT_GT(largest, 0.65);  // of 3/4: the first sum is below 4
}

TEST(RanksInAnyOrder, SumsOnAWireNeedTheirShare) {
  double largest = 0;
  std::mt19937 random(3);
  for (int i = 0; i < 20000; ++i) {
    float x[3];
    for (float& part : x) part = 1.34375F + static_cast<float>(random() % 20) / 128;
    const float y = round_to(round_to(x[0] + x[1], bf16) + x[2], bf16);
    const double error =
        std::fabs(static_cast<double>(y) - (static_cast<double>(x[0]) + x[1] + x[2]));
    const double bound = worst_of({exactly(x[0]), exactly(x[1]), exactly(x[2])}, bf16);
    ASSERT_LE(error, bound);
    largest = std::max(largest, error / bound);
  }
  EXPECT_GT(largest, 0.65);
}

TEST(RanksInAnyOrder, CarryTheErrorsOfTheirParts) {
  RunningError off = exactly(1);
  off.err(0.25, Share::sums);
  EXPECT_GE(worst_of({off, off, off}, fp32), 0.75);
}

// What is subnormal may vanish in each sum.
TEST(RanksInAnyOrder, MayFlushTheirSums) {
  Arithmetic flushing;
  flushing.flushes = true;
  const ArithmeticScope scope(flushing);
  const RunningError tiny = exactly(0x1p-130);
  EXPECT_GE(worst_of({tiny, tiny, tiny}, fp32), 3 * 0x1p-130);
}

// Zeros have no order, nor have two numbers.
TEST(RanksInAnyOrder, OfTwoNumbersAreAddedAsPromised) {
  Example e{"sum", {}, {}, {5, bf16, fp32}};
  for (const double x : {0.0, 1.0078125, 0.0, 300.0, 0.0}) e.inputs.emplace_back(1, 1, x);
  const double promised = tolerance_of(e)->bound[0].values[0];
  e.how.any_rank_order = true;
  EXPECT_EQ(tolerance_of(e)->bound[0].values[0], promised);
}

TEST(RanksInAnyOrder, BeyondTheWiresRangeHaveNoBound) {
  Example e{"sum", {}, {}, {3, fp16, fp32}};
  e.how.any_rank_order = true;
  for (const double x : {40000.0, 30000.0, -40000.0}) e.inputs.emplace_back(1, 1, x);
  EXPECT_FALSE(tolerance_of(e));
}

}  // namespace
}  // namespace plumb::rank_order_test
