// Is Truth MPFR's arithmetic, with the bits it claims?
#include "bounds/proof/truth.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "bounds/proof/exact.hpp"
#include "tests/support/rooms.hpp"

namespace plumb {
namespace {

TEST(Truth, KeepsThreeHundredBits) {
  const Truth tiny = Truth(1) + Truth(0x1p-290);
  EXPECT_EQ(double(tiny - Truth(1)), 0x1p-290);
  EXPECT_EQ(tiny.distance_from(1), 0x1p-290);
  EXPECT_GT((Truth(1) / Truth(3)).distance_from(1.0 / 3), 0);
  EXPECT_EQ(double(Truth(1) / Truth(3) * Truth(3)), 1);
  EXPECT_EQ(double(fma(Truth(0x1p-600), Truth(0x1p-600), Truth(0)) / Truth(0x1p-600)), 0x1p-600);
}

TEST(Truth, HasMpfrsFunctions) {
  for (const double x : {0.1, 1.0, 3.7, 50.0}) {
    EXPECT_EQ(double(exp(Truth(x))), exact_exp(x));
    EXPECT_EQ(double(log(Truth(x))), exact_log(x));
    EXPECT_EQ(double(sqrt(Truth(x) * Truth(x))), x);
  }
  EXPECT_TRUE(Truth(1) < Truth(2));
  EXPECT_FALSE(Truth(2) < Truth(1));
  EXPECT_EQ(double(min(Truth(1), Truth(2))), 1);
  EXPECT_EQ(double(-Truth(2)), -2);
}

TEST(Truth, IsCopiedAndMoved) {
  Truth a(1);
  Truth b = a;
  b += Truth(1);
  EXPECT_EQ(double(a), 1);
  a = std::move(b);
  EXPECT_EQ(double(a), 2);
  b = a;
  EXPECT_EQ(double(b), 2);
}

}  // namespace
}  // namespace plumb
