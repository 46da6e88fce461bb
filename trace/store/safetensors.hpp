// trace/store/safetensors.hpp: one rank's tensors in one file, in the safetensors format
// [HF-safetensors]: 8 bytes little-endian length, a JSON header, raw values. BF16 tensors take two
// bytes a value.
//
// A file is untrusted: every length, offset and shape is checked before it is used.
//
// TESTED   tests/trace/store_test.cpp (truncated, lying and hostile files)
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <map>
#include <string>

#include "trace/sees.hpp"
#include "trace/trace.hpp"

namespace plumb::trace {

// Throws Failure if the file cannot be written whole.
void write_shards(const std::filesystem::path& file, const std::map<std::string, Shard>& shards);

// Throws Failure with one sentence on anything that is not such a file.
std::map<std::string, Shard> read_shards(const std::filesystem::path& file);

// The same to a stream, with another text about each tensor in the file's __metadata__.
using SaysOf = std::function<std::string(const std::string& id, const Shard& shard)>;
void write_shards(std::ostream& out, const std::map<std::string, Shard>& shards,
                  const SaysOf& says);

// Writes to memory, and reads `size` bytes from it, which failures call `name`.
void write_shards(std::ostream& out, const std::map<std::string, Shard>& shards);
std::map<std::string, Shard> read_shards(std::istream& in, std::uint64_t size,
                                         const std::string& name);

}  // namespace plumb::trace
