#include "number/matrix.hpp"
#include "tests/support/rooms.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

namespace plumb::matrix_test {
namespace {

TEST(Matrix, IsZeroUnlessItIsToBeWritten) {
  EXPECT_EQ(Tensor(2, 3), Tensor(2, 3, 0.0F));
  const Tensor written(64, 64, to_be_written);
  EXPECT_EQ(written.size(), 64U * 64U);
#ifndef NDEBUG
  for (const float x : written.values) ASSERT_TRUE(std::isnan(x));
#endif
}

TEST(Matrix, IsCopiedWhole) {
  Tensor x(3, 5, to_be_written);
  for (std::size_t i = 0; i < x.size(); ++i) x.values[i] = static_cast<float>(i) - 7;
  const Tensor copy = x;
  Tensor assigned(1, 1);
  assigned = x;
  EXPECT_EQ(copy, x);
  EXPECT_EQ(assigned, x);
  x(2, 4) = 0;
  EXPECT_FALSE(copy == x);
  const Tensor moved = std::move(x);
  EXPECT_EQ(moved(2, 3), copy(2, 3));
}

TEST(Matrix, BeginsOnALineOfTheCache) {
  for (std::size_t n = 1; n < 300; n += 7) {
    const Tensor x(n, 1);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(x.values.data()) % 64, 0U) << n;
  }
}

// What is made longer is filled with what is asked for.
TEST(Matrix, GrowsByValues) {
  Tensor x(1, 2, 4.0F);
  x.values.resize(4, 1);
  EXPECT_EQ(x.values[3], 1);
}

}  // namespace
}  // namespace plumb::matrix_test
