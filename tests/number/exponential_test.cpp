// FP32's exponential against the C library's of FP64, which is right to far less than the claim's
// slack, over numbers of every exponent; at its ends; and in loops as alone.
#include "number/exponential.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "bounds/proof/exact.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::exponential_test {
namespace {

constexpr double claim = 0.5 + 0x1p-16;  // ulp
constexpr float infinity = std::numeric_limits<float>::infinity();

// Of FP32 at a positive number below its range's end.
double ulp_at(double y) { return std::ldexp(1.0, std::max(std::ilogb(y), -126) - 23); }

// Every `stride`-th number from the bits of `first` on, as long as they belong to the same sign and
// do not reach `end`. (All 2,240,639,512 from -110 to where e^x overflows, once: the largest is
// 0.5000029.)
double largest_error(float first, float end, std::uint32_t stride) {
  double largest = 0;
  for (std::uint32_t b = std::bit_cast<std::uint32_t>(first); b < std::bit_cast<std::uint32_t>(end);
       b += stride) {
    const auto x = std::bit_cast<float>(b);
    const double right = std::exp(static_cast<double>(x));
    largest = std::max(largest, std::fabs(exp(x) - right) / ulp_at(right));
  }
  return largest;
}

TEST(Exponential, KeepsItsClaim) {
  const auto stride = static_cast<std::uint32_t>(std::max(1, 20'000 / effort(100)));
  const double below = largest_error(-0.0F, -103.97F, stride);
  const double above = largest_error(0.0F, 88.7228F, stride);
  EXPECT_LE(std::max(below, above), claim);
  EXPECT_GT(std::min(below, above), 0.49);  // they are rounded, after all
}

TEST(Exponential, IsRightWhereTheLibraryIsAskedForMore) {
  for (int i = 0; i < effort(300); ++i) {
    const auto x = static_cast<float>(-100 + 188.0 * i / effort(300));
    const double right = exact_exp(static_cast<double>(x));
    EXPECT_LE(std::fabs(exp(x) - right), claim * ulp_at(right)) << x;
  }
}

TEST(Exponential, KnowsItsEnds) {
  EXPECT_EQ(exp(0.0F), 1);
  EXPECT_EQ(exp(88.7229F), infinity);
  EXPECT_EQ(exp(3e38F), infinity);
  EXPECT_EQ(exp(infinity), infinity);
  EXPECT_EQ(exp(-103.0F), 0x1p-149F);
  EXPECT_EQ(exp(-104.0F), 0);
  EXPECT_EQ(exp(-infinity), 0);
  EXPECT_TRUE(std::isnan(exp(std::numeric_limits<float>::quiet_NaN())));
}

TEST(Exponential, IsTheSameInALoopAsAlone) {
  std::vector<float> x, y;
  for (int i = -1050; i < 1050; ++i) x.push_back(static_cast<float>(i) * 0.1F);
  y.resize(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = exp(x[i]);
  for (std::size_t i = 0; i < x.size(); ++i) {
    volatile float alone = x[i];
    ASSERT_EQ(y[i], exp(alone)) << x[i];
  }
}

}  // namespace
}  // namespace plumb::exponential_test
