// number/format.hpp: a floating-point format is seven numbers and a name.
//
//   value = (-1)^s * 1.f * 2^e,  emin <= e <= emax,  f has precision-1 bits;  subnormals below.
//
// UNIT     unit_roundoff is relative, spacing_at_zero and largest are absolute.
// TESTED   tests/number/format_test.cpp, tests/number/encoding_test.cpp
// SOURCES  bounds/SOURCES.md [IEEE754] [OFP8] [OCP-MX] [NW22]
#pragma once

#include <array>
#include <cmath>
#include <string_view>

namespace plumb {

// The result of a value beyond largest(), unless saturation is asked for.
enum class Overflow { to_infinity, to_nan, to_largest };
// Which zeros a format has: both signs; only +0 (the code of -0 is the NaN); none, and no sign at
// all (scales).
enum class Zeros { both, one, none };

struct Format {
  std::string_view name;
  int precision;  // significand bits, the leading one included
  int emin;       // exponent of the smallest normal number
  int emax;       // exponent of the largest finite number
  int top_gap;    // encodings missing from the top binade (e4m3fn gives one to NaN)
  Overflow overflow;
  int bits;  // storage width
  Zeros zeros = Zeros::both;

  double unit_roundoff() const { return std::ldexp(1.0, -precision); }
  double spacing_at_zero() const { return std::ldexp(1.0, emin - precision + 1); }
  double smallest_normal() const { return std::ldexp(1.0, emin); }
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
inline constexpr Format e4m3fnuz {"e4m3fnuz",  4,    -7,    7, 0, Overflow::to_nan,       8, Zeros::one};
inline constexpr Format e5m2fnuz {"e5m2fnuz",  3,   -15,   15, 0, Overflow::to_nan,       8, Zeros::one};
inline constexpr Format e3m2     {"e3m2",      3,    -2,    4, 0, Overflow::to_largest,   6};
inline constexpr Format e2m3     {"e2m3",      4,     0,    2, 0, Overflow::to_largest,   6};
inline constexpr Format e2m1     {"e2m1",      2,     0,    2, 0, Overflow::to_largest,   4};
inline constexpr Format e8m0     {"e8m0",      1,  -127,  127, 0, Overflow::to_nan,       8, Zeros::none};
// clang-format on

inline constexpr std::array all_formats{fp64,     fp32,     tf32, fp16, bf16, e4m3fn, e5m2,
                                        e4m3fnuz, e5m2fnuz, e3m2, e2m3, e2m1, e8m0};

// Returns the format of that name, or nullptr. Costs a walk over the rows.
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
