// Exponentials against MPFR; chains against exact sums and, over FP32, against a plain loop.
#include "number/rows.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "bounds/proof/exact.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::rows_test {
namespace {

TEST(Rows, ExponentialsHaveARelativeErrorBelowTheirClaim) {
  std::mt19937_64 random(5);
  double largest = 0;
  for (int i = 0; i < effort(300); ++i) {
    std::vector<double> x;
    for (int j = 0; j < 21; ++j) {
      const double size = std::ldexp(1.0, static_cast<int>(random() % 40) - 30);
      x.push_back(std::uniform_real_distribution<double>(-size, std::min(size, 700.0))(random));
      x.back() = std::max(x.back(), -708.0);
    }
    const std::vector<double> y = exponentials(x.data(), x.size(), 0.0);
    for (std::size_t j = 0; j < x.size(); ++j) {
      const double right = exact_exp(x[j]);
      largest = std::max(largest, std::fabs(y[j] - right) / right);
      ASSERT_LE(std::fabs(y[j] - right), 0x1p-51 * right) << x[j];
    }
  }
  EXPECT_GT(largest, 0x1p-54);  // they are rounded, after all
}

TEST(Rows, ExponentialsKnowTheirEnds) {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<double> x{0, -infinity, -1e300, -744, 709.78, 800, infinity, -708.5, 1e-300};
  const std::vector<double> y = exponentials(x.data(), x.size(), 0.0);
  EXPECT_EQ(y[0], 1);
  EXPECT_EQ(y[1], 0);
  EXPECT_EQ(y[2], 0);
  EXPECT_NEAR(y[3], std::exp(-744), 0x1p-1074);
  EXPECT_NEAR(y[4], std::exp(709.78), 0x1p-50 * std::exp(709.78));
  EXPECT_EQ(y[5], infinity);
  EXPECT_EQ(y[6], infinity);
  EXPECT_NEAR(y[7], std::exp(-708.5), 0x1p-1070);
  EXPECT_EQ(y[8], 1);
  const double none = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(std::isnan(exponentials(&none, 1, 0.0)[0]));
}

TEST(Rows, SumsOfFp32RunInOrderAndThoseOfFp64TakeEveryTerm) {
  std::mt19937 random(6);
  for (std::size_t n = 1; n < 100; ++n) {
    std::vector<float> x(n);
    for (float& v : x) v = std::normal_distribution<float>()(random);
    float sum = 0, squares = 0;
    std::vector<double> wide, off, ones(n, 1);
    for (const float v : x) {
      sum += v;
      squares = std::fma(v - 0.5F, v - 0.5F, squares);
      wide.push_back(static_cast<double>(v));
      off.push_back(wide.back() - 0.5);
    }
    EXPECT_EQ(sum_of(x.data(), n), sum);
    EXPECT_EQ(squares_of(x.data(), n, 0.5F), squares);
    EXPECT_EQ(largest_of(x.data(), n), *std::max_element(x.begin(), x.end()));
    EXPECT_NEAR(sum_of(wide.data(), n), exact_dot(wide, ones, 0), 0x1p-46) << n;
    const double right = exact_dot(off, off, 0);  // [JR13]: n roundings at most, in any order
    EXPECT_NEAR(squares_of(wide.data(), n, 0.5), right, static_cast<double>(n) * 0x1p-53 * right);
    EXPECT_EQ(largest_of(wide.data(), n), *std::max_element(wide.begin(), wide.end())) << n;
  }
}

}  // namespace
}  // namespace plumb::rows_test
