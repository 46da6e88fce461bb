// Is a growth that was put in found again, and does its interval hold it as often as it says?
#include "paper_repro/growth.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "number/philox.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::growth_test {
namespace {

using Series = std::vector<std::pair<double, double>>;

// a C^x with noise on the logarithm that is like its neighbour's by `memory`.
Series noisy(double a, double c, int points, double noise, double memory, std::uint64_t key) {
  Series series;
  double error = 0;
  for (int x = 1; x <= points; ++x) {
    error = memory * error +
            noise * std::sqrt(12.0) * (uniform(key, static_cast<std::uint64_t>(x)) - 0.5);
    series.emplace_back(x, a * std::pow(c, x) * std::exp(error));
  }
  return series;
}

TEST(Growth, IsExactWithoutNoise) {
  const Growth growth = growth_of({noisy(2e-3, 1.03, 24, 0, 0, 1), noisy(5e-3, 1.03, 24, 0, 0, 2)});
  EXPECT_NEAR(growth.c, 1.03, 1e-12);
  EXPECT_NEAR(growth.low, 1.03, 1e-9);
  EXPECT_NEAR(growth.high, 1.03, 1e-9);
}

int held(double memory) {
  int inside = 0;
  for (std::uint64_t trial = 0; trial < 400; ++trial) {
    const Growth growth = growth_of({noisy(1e-3, 1.02, 64, 0.1, memory, 10 + 2 * trial),
                                     noisy(1e-3, 1.02, 64, 0.1, memory, 11 + 2 * trial)});
    inside += growth.low <= 1.02 && 1.02 <= growth.high ? 1 : 0;
  }
  return inside;
}

// 380 of 400 are promised; where neighbours are alike the variance of a finite series is short, by
// the literature as well: 0.85 and more at a memory of one half. Plain least squares holds 0.74.
TEST(Growth, HoldsTheTruthAsOftenAsItSays) {
  EXPECT_GE(held(0), 364);  // 1e-3 below 380
  EXPECT_GE(held(0.5), 340);
}

TEST(Growth, AsksForFourPoints) {
  EXPECT_THROW(growth_of({{{1, 1}, {2, 2}, {3, 0}}}), std::invalid_argument);
}

TEST(Epsilon, OfEightBitsIsThatOfBf16) {
  EXPECT_EQ(epsilon_of("fp8-delayed"), 0x1p-7);
  EXPECT_EQ(epsilon_of("fp16"), 0x1p-10);
  EXPECT_EQ(epsilon_of("fp32"), 0x1p-23);
}

}  // namespace
}  // namespace plumb::growth_test
