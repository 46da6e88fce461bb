// Is BigFloat MPFR's arithmetic, with the bits it claims?
#include "bounds/proof/big_float.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "bounds/proof/exact.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::big_float_test {
namespace {

TEST(BigFloat, KeepsThreeHundredBits) {
  const BigFloat tiny = BigFloat(1) + BigFloat(0x1p-290);
  EXPECT_EQ(double(tiny - BigFloat(1)), 0x1p-290);
  EXPECT_EQ(tiny.distance_from(1), 0x1p-290);
  EXPECT_GT((BigFloat(1) / BigFloat(3)).distance_from(1.0 / 3), 0);
  EXPECT_EQ(double(BigFloat(1) / BigFloat(3) * BigFloat(3)), 1);
  EXPECT_EQ(double(fma(BigFloat(0x1p-600), BigFloat(0x1p-600), BigFloat(0)) / BigFloat(0x1p-600)),
            0x1p-600);
}

TEST(BigFloat, HasMpfrsFunctions) {
  for (const double x : {0.1, 1.0, 3.7, 50.0}) {
    EXPECT_EQ(double(exp(BigFloat(x))), exact_exp(x));
    EXPECT_EQ(double(log(BigFloat(x))), exact_log(x));
    EXPECT_EQ(double(sqrt(BigFloat(x) * BigFloat(x))), x);
  }
  EXPECT_TRUE(BigFloat(1) < BigFloat(2));
  EXPECT_FALSE(BigFloat(2) < BigFloat(1));
  EXPECT_EQ(double(min(BigFloat(1), BigFloat(2))), 1);
  EXPECT_EQ(double(-BigFloat(2)), -2);
}

TEST(BigFloat, IsCopiedAndMoved) {
  BigFloat a(1);
  BigFloat b = a;
  b += BigFloat(1);
  EXPECT_EQ(double(a), 1);
  a = std::move(b);
  EXPECT_EQ(double(a), 2);
  b = a;
  EXPECT_EQ(double(b), 2);
}

}  // namespace
}  // namespace plumb::big_float_test
