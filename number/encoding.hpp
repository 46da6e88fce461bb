// number/encoding.hpp: the bits of a number in a format of at most 16 bits.
//
//   sign | exponent | significand, as each format's standard lays them out; codes in the low bits.
//
// TESTED   tests/number/encoding_test.cpp: every code, and against ml_dtypes
#pragma once

#include <cstdint>

#include "number/format.hpp"

namespace plumb {

// Returns the number that a code stands for; NaN for all codes of NaN. Throws Failure on formats
// of more than 16 bits.
double decode(std::uint32_t code, const Format& format);

// Returns the code of a number of the format (round first); of NaN the one with all payload bits
// set. Throws Failure if the format cannot hold x, or has more than 16 bits.
std::uint32_t encode(double x, const Format& format);

}  // namespace plumb
