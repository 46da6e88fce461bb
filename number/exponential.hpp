// number/exponential.hpp: e^x of FP32 numbers, the same bits on every machine. Where the
// machine has fused multiply-adds there is no call and no branch, so that a loop of it becomes
// vector code.
//
//   e^x = 2^k e^r    |r| <= ln(2) / 2, in FP64: Taylor's polynomial of degree 10, whose remainder
//                    is below |r|^11 / 11! e^|r| < 2^-41 of it; rounded once to FP32, to subnormal
//                    numbers, too
//
// CLAIM    |exp(x) - e^x| <= (1/2 + 2^-16) ulp for every x whose e^x FP32 can hold: the rounding is
//          half an ulp, 2^-41 of the result is at most 2^-17 of its ulp, and as much again is more
//          than FP64 loses. Beyond FP32's range the result is infinity; of NaN it is NaN.
// HOLDS    where roundings are to nearest and subnormals kept
// TESTED   tests/number/exponential_test.cpp
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace plumb {

// Constants that FP64's exponential (rows.hpp) shares.
namespace exponentials_of {
// ln 2 in two parts, the first of 32 bits, so that k times it is exact.
inline constexpr double ln2_first = 0x1.62e42feep-1, ln2_second = 0x1.a39ef35793c76p-33;
inline constexpr double log2e = 0x1.71547652b82fep+0;
inline constexpr double to_whole = 0x1.8p52;  // added and taken away: rounds to whole numbers
inline constexpr auto inverse_factorials = [] {
  std::array<double, 14> c{1};
  double factorial = 1;
  for (std::size_t i = 1; i < c.size(); ++i) c[i] = 1 / (factorial *= static_cast<double>(i));
  return c;
}();
}  // namespace exponentials_of

[[gnu::always_inline]] inline float exp(float x) {
  using namespace exponentials_of;
  constexpr double lowest = -104, highest = 89;  // there: 0 and infinity
  double z = static_cast<double>(x);             // NaN stays: no comparison holds of it
  z = z < lowest ? lowest : z;
  z = z > highest ? highest : z;
  const double shifted = z * log2e + to_whole;
  const double k = shifted - to_whole;
  const double r = std::fma(-k, ln2_second, std::fma(-k, ln2_first, z));
  double power = inverse_factorials[10];
  // No loop: GCC 12 does not vectorise a loop that has one in it.
  [&]<std::size_t... i>(std::index_sequence<i...>) __attribute__((always_inline)) {
    ((power = std::fma(power, r, inverse_factorials[9 - i])), ...);
  }
  (std::make_index_sequence<10>());
  // The last bits of `shifted` hold k; 2^k is a normal number.
  const double two_to_k =
      std::bit_cast<double>((std::bit_cast<std::uint64_t>(shifted) + 1023) << 52);
  return static_cast<float>(power * two_to_k);
}

// For operations that are written over number types and run over FP64: the C library's.
inline double exp(double x) { return std::exp(x); }

}  // namespace plumb
