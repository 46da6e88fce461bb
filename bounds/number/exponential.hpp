// bounds/number/exponential.hpp: e^x of FP32 numbers, the same bits on every machine, and without a
// call or a branch, so that compilers make many at once of a loop of them.
//
//   e^x = 2^k e^r,  |r| <= ln(2) / 2, in FP64: Taylor's polynomial of degree 10, whose remainder is
//   below |r|^11 / 11! e^|r| < 2^-41 of it; rounded once to FP32, to subnormal numbers, too
//
// CLAIM    |exp(x) - e^x| <= (1/2 + 2^-16) ulp for every x: half of one is the rounding, 2^-41 of
//          the result at most 2^-17 of its ulp, and as much again is more than FP64 loses
// TESTED   tests/bounds/number/exponential_test.cpp
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>

namespace plumb {

inline float exp(float x) {
  // ln 2 in two parts, the first of 32 bits, so that k times it is exact.
  constexpr double first = 0x1.62e42feep-1, second = 0x1.a39ef35793c76p-33;
  constexpr double log2e = 0x1.71547652b82fep+0, whole = 0x1.8p52;  // rounds to whole numbers
  constexpr double lowest = -104, highest = 89;                     // there: 0 and infinity
  constexpr auto inverse_factorials = [] {
    std::array<double, 11> c{1};
    double factorial = 1;
    for (std::size_t i = 1; i < c.size(); ++i) c[i] = 1 / (factorial *= static_cast<double>(i));
    return c;
  }();
  double z = static_cast<double>(x);  // NaN stays: no comparison holds of it
  z = z < lowest ? lowest : z;
  z = z > highest ? highest : z;
  const double shifted = z * log2e + whole;
  const double k = shifted - whole;
  const double r = std::fma(-k, second, std::fma(-k, first, z));
  double power = inverse_factorials[10];
  // No loop: GCC 12 does not make several at once of a loop that has one in it.
  [&]<std::size_t... i>(std::index_sequence<i...>) {
    ((power = std::fma(power, r, inverse_factorials[9 - i])), ...);
  }
  (std::make_index_sequence<10>());
  // The last bits of `shifted` are k's; 2^k is a normal number.
  const double two_to_k =
      std::bit_cast<double>((std::bit_cast<std::uint64_t>(shifted) + 1023) << 52);
  return static_cast<float>(power * two_to_k);
}

// What operations that are written over number types find for FP64: the C library's.
inline double exp(double x) { return std::exp(x); }

}  // namespace plumb
