// bounds/number/format.hpp: a floating-point format is six numbers and a name.
//
//   value = (-1)^s * 1.f * 2^e,  emin <= e <= emax,  f has precision-1 bits;  subnormals below.
//
// UNIT     unit_roundoff is relative, spacing_at_zero and largest are absolute.
// TESTED   tests/bounds/number/format_test.cpp      SOURCES  bounds/SOURCES.md [IEEE754] [OFP8]
#pragma once

#include <array>
#include <cmath>
#include <string_view>

namespace plumb {

enum class Overflow { to_infinity, to_nan };

struct Format {
  std::string_view name;
  int precision;      // significand bits, the leading one included
  int emin;           // exponent of the smallest normal number
  int emax;           // exponent of the largest finite number
  int top_gap;        // encodings missing from the top binade (e4m3fn gives one to NaN)
  Overflow overflow;  // what a value beyond largest() becomes, unless saturation is asked for
  int bits;           // storage width

  double unit_roundoff() const { return std::ldexp(1.0, -precision); }
  double spacing_at_zero() const { return std::ldexp(1.0, emin - precision + 1); }
  double largest() const {
    return std::ldexp(std::ldexp(1.0, precision) - 1 - top_gap, emax - precision + 1);
  }
  bool operator==(const Format& other) const { return name == other.name; }
};

// clang-format off
//                                 name       p    emin emax gap  overflow             bits
inline constexpr Format fp64     {"fp64",     53, -1022, 1023, 0, Overflow::to_infinity, 64};
inline constexpr Format fp32     {"fp32",     24,  -126,  127, 0, Overflow::to_infinity, 32};
inline constexpr Format tf32     {"tf32",     11,  -126,  127, 0, Overflow::to_infinity, 32};
inline constexpr Format fp16     {"fp16",     11,   -14,   15, 0, Overflow::to_infinity, 16};
inline constexpr Format bf16     {"bf16",      8,  -126,  127, 0, Overflow::to_infinity, 16};
inline constexpr Format e4m3fn   {"e4m3fn",    4,    -6,    8, 1, Overflow::to_nan,       8};
inline constexpr Format e5m2     {"e5m2",      3,   -14,   15, 0, Overflow::to_infinity,  8};
// clang-format on

inline constexpr std::array all_formats{fp64, fp32, tf32, fp16, bf16, e4m3fn, e5m2};

// Returns the format of that name, or nullptr. Costs a walk over seven rows.
inline const Format* find_format(std::string_view name) {
  for (const Format& format : all_formats) {
    if (format.name == name) return &format;
  }
  return nullptr;
}

// The distance from |x| to the next larger magnitude of the format (absolute; x finite).
inline double ulp(double x, const Format& format) {
  const int exponent = x == 0 ? format.emin : std::max(std::ilogb(x), format.emin);
  return std::ldexp(1.0, exponent - format.precision + 1);
}

}  // namespace plumb
