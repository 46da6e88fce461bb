// kernels/mma/split.hpp: numbers as a matrix unit sees them, an integer and a power of two.
//
// TESTED   tests/kernels/mma_test.cpp, tests/kernels/oracle_test.cpp
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/sees.hpp"

namespace plumb::kernels {

constexpr int far_below = -4096;  // the exponent of zero: never the largest

// value = significand 2^(exponent - bits), the significand an integer with its sign; a subnormal
// number has the exponent of the smallest normal one.
struct Split {
  std::int32_t significand = 0;
  std::int32_t exponent = far_below;
};

inline Split split(float x, int bits, int emin) {
  if (x == 0) return {};
  const int exponent = std::max(std::ilogb(x), emin);
  return {static_cast<std::int32_t>(std::ldexp(x, bits - exponent)), exponent};
}

}  // namespace plumb::kernels
