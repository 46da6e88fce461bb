// trace/last_bit.hpp: last bits of numbers, as far as they are those of a format that they have.
//
// TESTED   tests/trace/twin_traces_test.cpp
#pragma once

#include "number/format.hpp"
#include "trace/whole.hpp"

namespace plumb::trace {

// That of the largest number; 0 where its format has none, infinite where that is not finite.
double last_bit(const Whole& x);

// Are both one number, and not farther apart than one last bit?
bool one_last_bit_apart(const Whole& x, const Whole& y);

}  // namespace plumb::trace
