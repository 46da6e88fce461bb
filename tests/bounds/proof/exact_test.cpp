#include "bounds/proof/exact.hpp"
#include "tests/support/rooms.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace plumb::exact_test {
namespace {

TEST(Exact, SumsWhatDoublesLose) {
  const std::vector<double> a{0x1p600, 1, -0x1p600, 0x1p-600};
  const std::vector<double> one(4, 1);
  EXPECT_EQ(exact_dot(a, one), 1);
  EXPECT_EQ(distance_from_dot(1, a, one), 0x1p-600);
  EXPECT_THROW(exact_dot(a, std::vector<double>(3)), std::invalid_argument);
}

TEST(Exact, FunctionsKnowTheirConstants) {
  EXPECT_EQ(exact_exp(1), 0x1.5bf0a8b145769p+1);
  EXPECT_EQ(exact_log(2), 0x1.62e42fefa39efp-1);
  EXPECT_EQ(exact_sigmoid(0), 0.5);
  EXPECT_EQ(exact_cos(0), 1);
  EXPECT_EQ(exact_sin(0), 0);
  EXPECT_EQ(exact_softmax(std::vector<double>{3, 3, 3, 3}), std::vector<double>(4, 0.25));
  EXPECT_EQ(exact_log_sum_exp(std::vector<double>(8, 1000)), 1000 + 3 * exact_log(2));
}

TEST(Exact, RoundsWithSubnormals) {
  EXPECT_EQ(exact_rounding(1 + 0x1p-8, 8, -126), 1);  // tie to even
  EXPECT_EQ(exact_rounding(1 + 3 * 0x1p-8, 8, -126), 1 + 0x1p-6);
  EXPECT_EQ(exact_rounding(0x1p-134, 8, -126), 0);  // half the smallest
  EXPECT_EQ(exact_rounding(0x1.01p-134, 8, -126), 0x1p-133);
}

TEST(Exact, NormsHaveUnitSize) {
  const std::vector<double> x{3, -4, 12, 0.5};
  const std::vector<double> w(4, 1);
  double squares = 0;
  for (const double y : exact_rmsnorm(x, w, 0)) squares += y * y;
  EXPECT_NEAR(squares, 4, 1e-14);
  const auto y = exact_layernorm(x, w, std::vector<double>(4), 0);
  EXPECT_NEAR(std::accumulate(y.begin(), y.end(), 0.0), 0, 1e-14);
}

}  // namespace
}  // namespace plumb::exact_test
