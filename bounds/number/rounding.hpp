// bounds/number/rounding.hpp: the one place where a number loses bits.
//
//   round_to(x, to) is the element of `to` chosen by the rounding mode; subnormals are kept, the
//   sign of zero is kept, NaN stays NaN.
//
// CLAIM    nearest_even: |round_to(x) - x| <= u/(1+u) |x| + spacing_at_zero/2 below the largest.
//          toward_zero:  never larger in magnitude than x.
//          stochastic:   one of the two neighbours of x; the upper with probability (position of
//                        x between them), decided by the 32 random bits in `word`.
// NOT FOR  vcvtneps2bf16, which flushes FP32 subnormals: that is another cast.
// TESTED   tests/bounds/number/rounding_test.cpp: every encoding of every format of <= 16 bits
#pragma once

#include <cstdint>
#include <span>

#include "bounds/number/format.hpp"

namespace plumb {

enum class Rounding { nearest_even, toward_zero, stochastic };

// Returns x rounded. Saturating: beyond the largest number of `to` the largest number, also for
// infinities; otherwise what the format's row says.
float round_to(float x, const Format& to, Rounding how = Rounding::nearest_even,
               bool saturate = false, std::uint32_t word = 0);

// The same for a double (used where an FP32 detour would round twice).
double round_to(double x, const Format& to, Rounding how = Rounding::nearest_even,
                bool saturate = false, std::uint32_t word = 0);

// Rounds all values in place, nearest even. Costs: memory speed for bf16; fp32 is free.
void round_in_place(std::span<float> values, const Format& to);

}  // namespace plumb
