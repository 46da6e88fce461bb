// trace/store/stored.hpp: how numbers lie in a file or in memory, and what they are.
//
// Formats of fewer than eight bits lie one in a byte, in its low bits; a byte with others set is read
// as a NaN.
//
// TESTED   tests/trace/tensor_file_test.cpp, tests/trace/given_test.cpp
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "number/format.hpp"
#include "trace/sees.hpp"

namespace plumb::trace {

// clang-format off
enum class Stored {
  f64, f32, f16, bf16, e4m3, e5m2, e4m3_fnuz, e5m2_fnuz, e3m2, e2m3, e2m1, e8m0,
  i8, i16, i32, i64, u8, u16, u32, u64
};
// clang-format on

// Number of bytes of one.
std::size_t width_of(Stored stored);

// Whole numbers, truth values among them.
bool is_whole(Stored stored);

// The short format; FP32 of what is as wide or wider.
const Format& format_of(Stored stored);

// "fp32", "bf16", "e4m3fn" and so on as number/format.hpp has them; "int32", "uint8".
std::optional<Stored> find_stored(std::string_view name);
std::string_view name_of(Stored stored);
std::vector<std::string> all_stored();

// Reads as many as `into` has. Returns the place of the first number that FP32 does not have, or
// into.size().
std::size_t read_numbers(std::span<const char> bytes, Stored stored, std::span<double> into);

// Of whole numbers: the bits of each as one of 64, with its sign.
void read_whole_numbers(std::span<const char> bytes, Stored stored, std::span<std::uint64_t> into);
// What is left of such bits where the number is stored so: a sum wraps around.
std::uint64_t wrapped(std::uint64_t bits, Stored stored);

}  // namespace plumb::trace
