// tests/fuzz/reader.hpp: what reads text or files from outside, given any bytes.
//
// A reader is a file of readers/: it makes of the bytes what it wants to read, and reads it. Each file
// registers itself; the fuzzers run one reader, the test Fuzz.* all of them on what is committed.
//
// CLAIM    Whatever the bytes: they are read, or refused by a Failure of one line that no terminal
//          obeys; and memory is never more than `fixed + each n` bytes for n that are given.
// TESTED   tests/fuzz/corpus_test.cpp, ./run fuzz
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace plumb::fuzz {

using Bytes = std::string_view;

// A regular expression may take 8 MB (trace/selection.hpp), and there are two in a selection; a
// schema is parsed once. A bracket of JSON, one byte, becomes a value of its own on the heap, about a
// hundred bytes, and is copied.
inline constexpr std::size_t fixed = std::size_t(32) << 20, each = 1024;

class Reader {
 public:
  Reader(std::string name, void (*read)(Bytes));
  const std::string& name() const { return name_; }
  // Throws std::logic_error where the claim does not hold, and whatever else was thrown.
  void operator()(Bytes bytes) const;

 private:
  std::string name_;
  void (*read_)(Bytes);
};

// Sorted by name.
std::vector<Reader> all_readers();
// Throws std::invalid_argument if there is none of that name.
Reader reader_named(const std::string& name);

// What lies between bytes 0x1e (which ASCII calls a record separator), at least `least` parts: those
// that are lacking are empty.
std::vector<Bytes> parts_of(Bytes bytes, std::size_t least);

// A file of the safetensors format: its header is what stands before the first zero byte, its values
// what stands behind. So bytes need not know the header's length.
std::string framed(Bytes part);

// A folder of this process, in memory where the system has such a place; it goes with the process.
const std::filesystem::path& folder();
// Writes a file below it; where `bytes` are empty there is none.
std::filesystem::path put(const std::string& name, Bytes bytes);

// Bytes on the heap now and at most since the last call of forget_most().
std::size_t heap_now();
std::size_t heap_most();
void forget_most();

}  // namespace plumb::fuzz
