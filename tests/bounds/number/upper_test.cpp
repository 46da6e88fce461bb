#include "bounds/number/upper.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "bounds/examples/draw.hpp"
#include "bounds/number/exact.hpp"
#include "tests/support/effort.hpp"

namespace plumb {
namespace {

template <class T>
concept Subtractable = requires(T a, T b) {
  a - b;
};
template <class T>
concept Divisible = requires(T a, T b) {
  a / b;
};
static_assert(!Subtractable<Upper> && !Divisible<Upper>);

TEST(Upper, IsNeverBelowTheTruthAndHardlyAbove) {
  for (const char* kind : input_kinds) {
    Draw draw(kind, 1);
    for (int i = 0; i < effort(2000); ++i) {
      const double a = std::fabs(draw.matrix(1, 1).values[0]);
      const double b = std::fabs(draw.matrix(1, 1).values[0]) / 3;
      const std::vector<double> left{a, b};
      const double sum = (Upper::of(a) + Upper::of(b)).value();
      const double product = (Upper::of(a) * Upper::of(b)).value();
      const double root = sqrt(Upper::of(a)).value();
      const std::vector<double> one{1, 1};
      // Above the correctly rounded truth, or equal where that was exact.
      const double exact_sum = exact_dot(left, one);
      EXPECT_TRUE(sum >= exact_sum && sum <= exact_sum * (1 + 0x1p-50));
      EXPECT_LE(distance_from_dot(sum, left, one).value(), sum * 0x1p-51);
      EXPECT_GE(product, exact_dot(std::vector{a}, std::vector{b}));
      EXPECT_GE(exact_dot(std::vector{root}, std::vector{root}), a);
    }
  }
}

TEST(Upper, OfNothingIsRefused) {
  for (const double x : {-1.0, std::nan(""), HUGE_VAL})
    EXPECT_THROW(Upper::of(x), std::domain_error);
  EXPECT_EQ((Upper() + Upper()).value(), 0);
  EXPECT_GT((Upper::of(0x1p-1074) * Upper::of(0x1p-1074)).value(), 0);
}

}  // namespace
}  // namespace plumb
