#include "trace/levels.hpp"
#include "tests/support/rooms.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace plumb::levels_test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

TEST(Levels, StudentHasItsClosedForms) {
  for (const double t : {-3.0, 0.0, 0.7, 12.0, 1e5}) {
    EXPECT_NEAR(student_tail(t, 1), std::atan2(1, t) / M_PI, 1e-14);
    EXPECT_NEAR(student_tail(t, 2), (1 - t / std::sqrt(2 + t * t)) / 2, 1e-14);
  }
  EXPECT_NEAR(student_tail(30, 2) / (0.5 - 15 / std::sqrt(902.0)), 1, 1e-9);
  EXPECT_EQ(student_tail(1.5, infinity), normal_tail(1.5));
  EXPECT_EQ(student_tail(infinity, 3), 0);
}

TEST(Levels, QuantilesInvertTails) {
  for (const double p : {1e-12, 1e-6, 0.01, 0.5, 0.9}) {
    for (const double degrees : {1.0, 2.5, 7.0, 300.0, infinity}) {
      EXPECT_NEAR(student_tail(student_quantile(p, degrees), degrees) / p, 1, 1e-9) << p;
    }
  }
  EXPECT_NEAR(normal_quantile(0.025), 1.959963984540054, 1e-12);
  EXPECT_NEAR(normal_tail(10) / 7.619853024160527e-24, 1, 1e-12);
}

TEST(Levels, GammaFamilyHasItsClosedForms) {
  EXPECT_NEAR(digamma(1), -0.5772156649015329, 1e-14);
  EXPECT_NEAR(digamma(0.5), -0.5772156649015329 - 2 * std::log(2), 1e-14);
  EXPECT_NEAR(trigamma(1), M_PI * M_PI / 6, 1e-14);
  EXPECT_NEAR(trigamma(0.5), M_PI * M_PI / 2, 1e-14);
  for (double x = 1e-8; x < 1e10; x *= 1.7) {
    EXPECT_NEAR(inverse_trigamma(trigamma(x)) / x, 1, 1e-12) << x;
  }
  EXPECT_NEAR(inverse_trigamma(1e-17) * 1e-17, 1, 1e-12);
}

TEST(Levels, BinomialIntervalsCoverAsPromised) {
  constexpr std::size_t n = 12;
  for (const double rate : {0.02, 0.3, 0.5, 0.97}) {
    double covered = 0;
    for (std::size_t hits = 0; hits <= n; ++hits) {
      const Interval interval = binomial_interval(hits, n, 0.99);
      const double mass =
          binomial_tail(hits, n, rate) - (hits < n ? binomial_tail(hits + 1, n, rate) : 0);
      if (interval.low <= rate && rate <= interval.high) covered += mass;
    }
    EXPECT_GE(covered, 0.99);
  }
  EXPECT_EQ(binomial_interval(0, 10, 0.99).low, 0);
  EXPECT_NEAR(binomial_interval(0, 10, 0.99).high, 1 - std::pow(0.005, 0.1), 1e-12);
  EXPECT_NEAR(binomial_tail(3, 10, 0.5), 1 - 56.0 / 1024, 1e-14);
}

TEST(Levels, RefuseWhatIsOutsideTheirDomain) {
  EXPECT_THROW((void)student_tail(1, 0), std::domain_error);
  EXPECT_THROW((void)student_quantile(0, 3), std::domain_error);
  EXPECT_THROW((void)trigamma(-1), std::domain_error);
  EXPECT_THROW((void)inverse_trigamma(0), std::domain_error);
  EXPECT_THROW((void)binomial_interval(3, 2, 0.9), std::domain_error);
}

}  // namespace
}  // namespace plumb::levels_test
