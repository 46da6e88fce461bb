// trace/store/stored.hpp: how numbers lie in a file of tensors, and what they are.
//
// TESTED   tests/trace/tensor_file_test.cpp
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "number/format.hpp"
#include "trace/sees.hpp"

namespace plumb::trace {

enum class Stored { f64, f32, f16, bf16, e4m3, e5m2, i8, i16, i32, i64, u8, u16, u32, u64 };

// Number of bytes of one.
std::size_t width_of(Stored stored);

// The short format; FP32 of what is as wide or wider.
const Format& format_of(Stored stored);

// Reads as many as `into` has. Returns the place of the first number that FP32 does not have, or
// into.size().
std::size_t read_numbers(const std::vector<char>& bytes, Stored stored, std::span<double> into);

}  // namespace plumb::trace
