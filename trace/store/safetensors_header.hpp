// trace/store/safetensors_header.hpp: the header of a file of tensors in the safetensors format
// [HF-safetensors]: 8 bytes little-endian length, JSON, raw values behind it.
//
// The file is untrusted: its length is checked before anything is allocated.
//
// TESTED   tests/trace/store_test.cpp, tests/trace/tensor_file_test.cpp
#pragma once

#include <cstdint>
#include <iosfwd>
#include <nlohmann/json.hpp>

#include "number/outcome.hpp"
#include "trace/sees.hpp"

namespace plumb::trace {

struct SafetensorsHeader {
  nlohmann::json json;
  std::uint64_t values;  // where the values begin
};

// Reads the header of `size` bytes. Refuses with what is wrong, to stand after the file's name.
Outcome<SafetensorsHeader> read_safetensors_header(std::istream& in, std::uint64_t size);

}  // namespace plumb::trace
