// number/rounding.hpp: the one place where a number loses bits.
//
//   round_to(x, to) is the element of `to` chosen by the rounding mode; subnormals and the sign of
//   zero are kept where the format has them, NaN stays NaN.
//
// CLAIM    nearest_even   |round_to(x) - x| <= u/(1+u) |x| + spacing_at_zero/2 below the largest
//          toward_zero    never larger in magnitude than x
//          away           never smaller in magnitude than x
//          stochastic     one of the two neighbours of x; the upper with probability (position of
//                         x between them): where the 32 random bits of `word` added to it carry
//          e8m0 has neither sign nor zero: those become NaN, what is too small the least scale.
// NOT FOR  vcvtneps2bf16, which flushes FP32 subnormals before it rounds: that is another cast.
// TESTED   tests/number/rounding_test.cpp: every encoding of every format of <= 16 bits;
//          tests/number/encoding_test.cpp: against ml_dtypes
#pragma once

#include <cstdint>
#include <span>

#include "number/format.hpp"

namespace plumb {

enum class Rounding { nearest_even, toward_zero, away, stochastic };

struct Cast {
  Rounding how = Rounding::nearest_even;
  bool saturate = false;   // beyond the largest number the largest number, also for infinities
  bool flush = false;      // results below the smallest normal number become zero
  std::uint32_t word = 0;  // random bits of stochastic rounding
};

float round_to(float x, const Format& to, const Cast& cast = {});

// The same for a double, where a detour through FP32 would round twice.
double round_to(double x, const Format& to, const Cast& cast = {});

// The format whose last bit a number has that is said to be of `said`: FP32 if it is none of its numbers.
inline const Format& format_held(double x, const Format& said) {
  return round_to(x, said) == x ? said : fp32;
}

// Rounds all values in place, nearest even, nothing saturated or flushed. Costs: memory speed.
void round_in_place(std::span<float> values, const Format& to);

// Rounds stochastically: value i with random_word(key, first + i) of number/ars.hpp, so that a slice
// rounds as the whole does. Costs: about three times memory's, in cache.
void round_stochastically(std::span<float> values, const Format& to, std::uint64_t key,
                          std::uint64_t first = 0);

}  // namespace plumb
