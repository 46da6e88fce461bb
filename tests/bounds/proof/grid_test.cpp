// Is the variance of a rounding that of all that it can lose, counted one by one?
#include "bounds/proof/grid.hpp"

#include <gtest/gtest.h>

#include "number/format.hpp"
#include "number/rounding.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::grid_test {
namespace {

TEST(Grid, IsTheLastBit) {
  EXPECT_EQ(grid_of(1), 1);
  EXPECT_EQ(grid_of(-12), 4);
  EXPECT_EQ(grid_of(0x1.8p-1073), 0x1p-1074);
  EXPECT_EQ(grid_of(0x1.8p-1000), 0x1p-1001);
  EXPECT_EQ(grid_of(0x1.0000000000001p3), 0x1p-49);
  EXPECT_TRUE(std::isinf(grid_of(0)) && std::isinf(grid_of(-0.0)));
}

TEST(Grid, SpacingIsUlp) {
  for (const double m : {0x1p-160, 0x1p-140, 1.0, 1.999, 3e30}) {
    EXPECT_EQ(spacing_at(m), ulp(m, fp32));
    EXPECT_EQ(spacing_at(m, 0x1p-7, bf16.spacing_at_zero()), ulp(m, bf16));
  }
}

// All multiples of g in a binade of E4M3 and in the next.
TEST(Grid, VarianceIsThatOfAllThatCanBeLost) {
  for (const bool odd : {false, true}) {
    for (int bits = 1; bits <= 6; ++bits) {
      const double h = ulp(1, e4m3fn), g = std::ldexp(h, -bits);
      double squares = 0, count = 0;
      for (double x = odd ? 1 + g : 1; x < 2; x += odd ? 2 * g : g) {
        const double lost = round_to(x, e4m3fn) - x;
        squares += lost * lost;
        ++count;
      }
      EXPECT_DOUBLE_EQ(squares / count, variance_of_nearest(h, g, odd)) << odd << bits;
    }
  }
  EXPECT_EQ(variance_of_nearest(1, 0, false), 1 / 12.0);
}

}  // namespace
}  // namespace plumb::grid_test
