#include <gtest/gtest.h>

#include <limits>

#include "bounds/examples/example.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::unscale_test {
namespace {

Example unscaled(double scale, std::string_view kind = "plain", const Format& output = fp32) {
  Draw draw(kind, 3);
  return {"unscale",
          {Matrix<double>(1, 1, scale), draw.matrix(6, 8), draw.matrix(3, 5)},
          {},
          {1, fp32, output}};
}

TEST(Unscale, ByAPowerOfTwoIsExact) {
  for (const double scale : {1.0, 65536.0, 0x1p20, 0x1p-3}) {
    const Example e = unscaled(scale);
    const auto y = evaluation_of(e);
    const auto t = tolerance_of(e);
    ASSERT_EQ(y.size(), 3U);
    for (std::size_t o = 0; o < 2; ++o) {
      for (std::size_t i = 0; i < y[o].size(); ++i) {
        ASSERT_EQ(static_cast<double>(y[o].values[i]), e.inputs[o + 1].values[i] / scale);
        ASSERT_EQ(t->bound[o].values[i], 0);
      }
    }
    EXPECT_EQ(y[2].values[0], 0);
  }
  // Where a gradient has no bits to spare for it, half a spacing at zero.
  Example low = unscaled(65536);
  low.inputs[1] = Matrix<double>(1, 1, 0x1.8p-133);
  EXPECT_EQ(evaluation_of(low)[0].values[0], 0x1p-148F);  // 1.5 spacings of 2^-149: a tie
  EXPECT_GE(tolerance_of(low)->bound[0].values[0], 0x1p-150);
}

TEST(Unscale, ByAnotherNumberRoundsTwice) {
  const Example e = unscaled(3);
  const auto y = evaluation_of(e)[0];
  const auto t = tolerance_of(e);
  double nearest = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double right = e.inputs[1].values[i] / 3;
    const double error = std::fabs(static_cast<double>(y.values[i]) - right);
    ASSERT_LE(error, t->bound[0].values[i]);
    ASSERT_GT(t->bound[0].values[i], 0x1p-25 * std::fabs(right));
    nearest = std::max(nearest, error / t->bound[0].values[i]);
  }
  EXPECT_GT(nearest, 0.5);
}

TEST(Unscale, FindsWhatIsNotFiniteAndRefusesToBoundIt) {
  for (const double odd :
       {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
        std::numeric_limits<double>::quiet_NaN()}) {
    Example e = unscaled(1024);
    e.inputs[2].values[7] = odd;
    EXPECT_EQ(evaluation_of(e).back().values[0], 1);
    const auto t = tolerance_of(e);
    ASSERT_FALSE(t);
    EXPECT_EQ(t.error().why, Why::not_finite);
  }
}

// A scale that is too small sends gradients beyond FP32: no bound either.
TEST(Unscale, RefusesWhatMayOverflow) {
  Example e = unscaled(0x1p-100, "huge");
  const auto t = tolerance_of(e);
  ASSERT_FALSE(t);
  EXPECT_EQ(t.error().why, Why::may_overflow);
}

}  // namespace
}  // namespace plumb::unscale_test
