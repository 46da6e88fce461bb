// bounds/proof/grid.hpp: which multiples of a power of two a number can be, and so what a rounding
// can lose of it.
//
// A multiple of g that is rounded to a multiple of h > g, g and h powers of two, loses one of h/g
// amounts. Taken as equally likely (odd: only those of odd multiples of g) their variance is
//   nearest       h^2/12 + g^2/6        odd   h^2/12 - g^2/3, a tie h^2/4
//   toward zero   h^2/12 - g^2/12       odd   h^2/12 - g^2/3
//   stochastic    h^2/6  - g^2/6        odd   h^2/6  + g^2/3
// and g = 0, a number that may be anything, gives the textbook's h^2/12. A multiple of h loses
// nothing.
//
// TESTED   tests/bounds/proof/grid_test.cpp counts them
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "bounds/sees.hpp"

namespace plumb::bounds {

// The largest power of two that divides x; infinite for zero.
inline double grid_of(double x) {
  constexpr std::uint64_t fraction = 0x000fffffffffffffULL, exponent = 0x7ff0000000000000ULL;
  const auto bits = std::bit_cast<std::uint64_t>(x);
  if ((bits & ~(1ULL << 63)) == 0) return std::numeric_limits<double>::infinity();
  if ((bits & exponent) == 0) return std::ldexp(1.0, std::countr_zero(bits) - 1074);
  const int zeros = std::countr_zero((bits & fraction) | (fraction + 1));
  const double power = std::bit_cast<double>(bits & exponent);
  return power * 0x1p-52 * static_cast<double>(1ULL << zeros);
}

// The spacing at the magnitude m > 0 (which a double holds as a normal number) of a format whose
// spacing is `relative` from 1 to 2 and `at_zero` at zero.
inline double spacing_at(double m, double relative, double at_zero) {
  constexpr std::uint64_t exponent = 0x7ff0000000000000ULL;
  const double power = std::bit_cast<double>(std::bit_cast<std::uint64_t>(m) & exponent);
  return std::max(power * relative, at_zero);
}
inline double spacing_at(double m) { return spacing_at(m, 0x1p-23, 0x1p-149); }  // FP32's

// The variance that rounding to nearest adds (table at the top).
inline double variance_of_nearest(double h, double g, bool odd) {
  if (odd && h == 2 * g) return h * h / 4;
  return (h * h + (odd ? -4 : 2) * g * g) / 12;
}

}  // namespace plumb::bounds
