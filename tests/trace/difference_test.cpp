// Are the six numbers of the quick pass those of a plain loop in FP64, also where FP32 sums would
// lose everything?
#include "trace/difference.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tests/support/effort.hpp"
#include "tests/support/rooms.hpp"

namespace plumb {
namespace {

// Counts in steps of nextafter, one by one: slow and beyond doubt.
std::uint32_t steps_between(float a, float b) {
  std::uint32_t n = 0;
  for (; a < b; ++n) a = std::nextafter(a, b);
  for (; a > b; ++n) a = std::nextafter(a, b);
  return n;
}

Difference plainly(const std::vector<float>& a, const std::vector<float>& b) {
  Difference sum;
  const Closeness close;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) {
      ++sum.non_finite;
      continue;
    }
    const double d = static_cast<double>(a[i]) - b[i];
    sum.squares += d * d;
    sum.energy += static_cast<double>(b[i]) * b[i];
    sum.largest = std::max(sum.largest, std::fabs(a[i] - b[i]));
    sum.over += std::fabs(a[i] - b[i]) > close.absolute + close.relative * std::fabs(b[i]) ? 1 : 0;
  }
  return sum;
}

void expect_equal(const std::vector<float>& a, const std::vector<float>& b) {
  const Difference quick = difference(a, b), plain = plainly(a, b);
  EXPECT_NEAR(quick.squares, plain.squares, 1.2e-6 * plain.squares);
  EXPECT_NEAR(quick.energy, plain.energy, 1.2e-6 * plain.energy);
  EXPECT_EQ(quick.largest, plain.largest);
  EXPECT_EQ(quick.over, plain.over);
  EXPECT_EQ(quick.non_finite, plain.non_finite);
}

TEST(Difference, EqualsThePlainLoopAtEveryLengthAndSize) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (int draw = 0; draw < effort(200); ++draw) {
    const std::size_t n = random() % 2000;
    // Squares of the first fall below FP32, of the last beyond it.
    const float size = std::ldexp(1.0F, static_cast<int>(random() % 240) - 120);
    std::vector<float> a(n), b(n);
    for (std::size_t i = 0; i < n; ++i) {
      b[i] = size * normal(random);
      a[i] = random() % 3 == 0 ? b[i] : b[i] * (1 + 0.02F * normal(random));
    }
    expect_equal(a, b);
  }
}

TEST(Difference, LeavesOutWhatIsNotFiniteAndCountsIt) {
  std::vector<float> a(600, 1.0F), b(600, 1.5F);
  a[3] = std::numeric_limits<float>::quiet_NaN();
  b[300] = std::numeric_limits<float>::infinity();
  a[599] = -std::numeric_limits<float>::infinity();
  expect_equal(a, b);
  const Difference d = difference(a, b);
  EXPECT_EQ(d.non_finite, 3U);
  EXPECT_EQ(d.largest, 0.5F);
  EXPECT_TRUE(std::isinf(d.relative()));
}

TEST(Difference, CountsUlpsAcrossZero) {
  std::vector<float> a(300), b(300);
  a[7] = 100 * std::numeric_limits<float>::denorm_min();
  b[7] = -20 * std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(difference(a, b).ulps, steps_between(a[7], b[7]));
  a[290] = 1.0F;
  b[290] = 1.0F + 500 * 0x1p-23F;
  EXPECT_EQ(difference(a, b).ulps, steps_between(a[290], b[290]));
  a[5] = std::numeric_limits<float>::max();
  b[5] = std::numeric_limits<float>::lowest();
  EXPECT_EQ(difference(a, b).ulps, 2 * std::bit_cast<std::uint32_t>(a[5]));
}

TEST(Difference, RelativeKnowsZeros) {
  const std::vector<float> zeros(5), ones(5, 1.0F);
  EXPECT_EQ(difference(zeros, zeros).relative(), 0);
  EXPECT_EQ(difference(ones, ones).relative(), 0);
  EXPECT_EQ(difference(zeros, ones).relative(), 1);
  EXPECT_TRUE(std::isinf(difference(ones, zeros).relative()));
}

}  // namespace
}  // namespace plumb
