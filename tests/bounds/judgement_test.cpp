// Does a judgement count, remember and summarise what it was told of?
#include "bounds/judgement.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "bounds/sees.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::judgement_test {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

TEST(Judgement, CountsWhatIsOutsideAndKeepsTheWorst) {
  Judgement j(5, fp32);
  j.add(0, 1, 1, 0.5);
  j.add(1, 1.5, 1, 0.5);   // on the edge: inside
  j.add(2, 1.75, 1, 0.5);  // 1.5
  j.add(3, 0.5, 1, 1);
  j.add(4, 1.6, 1, 0.5);
  EXPECT_EQ(j.elements(), 5U);
  EXPECT_EQ(j.equal(), 1U);
  EXPECT_EQ(j.outside(), 2U);
  EXPECT_EQ(j.worst().element, 2U);
  EXPECT_EQ(j.worst().ratio, 1.5);
  EXPECT_EQ(j.between(0, 0.5), 1U);
  EXPECT_EQ(j.between(0.5, 1), 1U);
}

TEST(Judgement, ANumberThatIsNoneIsOutsideWhateverTheBound) {
  Judgement j(4, fp32);
  j.add(0, infinite, 1, 1e300);
  EXPECT_EQ(j.outside(), 1U);
  j.add(1, std::nan(""), 1, 1e300);
  EXPECT_EQ(j.worst().element, 1U);
  j.add(2, -infinite, 1, 1);
  j.add(3, std::nan(""), 1, 1);
  EXPECT_EQ(j.outside(), 4U);
  EXPECT_EQ(j.not_finite(), 4U);
  EXPECT_EQ(j.worst().element, 1U);  // the first NaN
}

TEST(Judgement, WhereTheBoundIsZeroOnlyTheValueIsInside) {
  Judgement j(2, fp32);
  j.add(0, 2, 2, 0);
  EXPECT_EQ(j.outside(), 0U);
  j.add(1, std::nextafter(2.0, 3.0), 2, 0);
  EXPECT_EQ(j.outside(), 1U);
  EXPECT_EQ(j.worst().ratio, infinite);
}

TEST(Judgement, UnderMomentsErrorsAreCountedFromTheBias) {
  Judgement j(2, fp32, 4);  // four deviations
  j.add(0, 1.5, 1, 0.1, 0.2);
  EXPECT_NEAR(j.worst().ratio, 0.75, 1e-12);
  j.add(1, 1.0, 1, 0.01, 0.2);  // equal to the value, and twenty deviations from what was foretold
  EXPECT_EQ(j.outside(), 1U);
  EXPECT_NEAR(lambda_of(1000, 1e-9), std::sqrt(2 * std::log(2e12)), 1e-12);
}

TEST(Judgement, QuantilesAreAtMostThreePerCentTooLarge) {
  Judgement j(100000, fp32);
  for (std::size_t e = 0; e < 100000; ++e) {
    j.add(e, (static_cast<double>(e) + 1) * 1e-5, 0, 1);
  }
  for (const double q : {0.01, 0.5, 0.9, 0.99, 1.0}) {
    EXPECT_GE(j.quantile(q), q * (1 - 1e-12));
    EXPECT_LE(j.quantile(q), q * 1.032);
  }
  EXPECT_EQ(j.outside(), 0U);
  EXPECT_EQ(j.between(0, 1), 100000U);
  EXPECT_EQ(j.between(0.5, 1), 50000U);
}

// Bounds of 0.01 |value| + 0.001: with rtol 0 the largest decides.
TEST(Judgement, AFitAcceptsAllThatTheBoundAccepts) {
  Judgement j(1001, bf16);
  for (std::size_t e = 0; e <= 1000; ++e) {
    const double value = static_cast<double>(e) / 100;
    j.add(e, value, value, 0.01 * value + 0.001);
  }
  const std::vector<Fit> fits = j.fits();
  ASSERT_GE(fits.size(), 3U);
  EXPECT_EQ(fits[0].rtol, 0);
  EXPECT_NEAR(fits[0].atol, 0.101, 1e-12);
  EXPECT_NEAR(fits[0].at_median, 0.101 / 0.051, 1e-9);
  EXPECT_NEAR(fits[0].at_most, 0.101 / 0.002, 1);
  EXPECT_EQ(fits[1].rtol, 0x1p-7);
  EXPECT_NEAR(fits[1].atol, 0.101 - 10 * 0x1p-7, 1e-12);
  EXPECT_EQ(fits[2].rtol, 0x1p-5);
  EXPECT_NEAR(fits[2].atol, 0.001, 1e-12);  // of the smallest
  for (const Fit& fit : fits) EXPECT_GE(fit.at_median, 1);
}

}  // namespace
}  // namespace plumb::judgement_test
