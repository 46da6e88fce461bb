// trace/store/mapped.hpp: numbers that stay in their file, which is mapped, until they are asked for.
//
// ASSUMES  The file is not made shorter while it is mapped: the system ends a process that reads
//          beyond its end.
// COSTS    no memory but the system's cache of files
// TESTED   tests/trace/mapped_test.cpp
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include "trace/sees.hpp"
#include "trace/store/stored.hpp"

namespace plumb::trace {

// A file, mapped to be read.
class MappedFile {
 public:
  // Throws Failure if it cannot be.
  explicit MappedFile(const std::filesystem::path& file);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();
  std::span<const char> bytes() const { return {at_, size_}; }

 private:
  const char* at_ = nullptr;
  std::size_t size_ = 0;
};

// Numbers that lie in a row in memory or in a mapped file.
struct Lying {
  const char* bytes;
  Stored stored;
  std::size_t n;
};

// Writes n numbers as FP32, to which FP64 is rounded; all others are FP32's. NaN of short formats
// keep their bits.
void numbers_at(const char* bytes, Stored stored, std::size_t n, float* into);

// Numbers that lie in a row in a file.
struct Mapped {
  std::shared_ptr<const MappedFile> file;
  std::uint64_t place = 0;  // of the first byte
  Stored stored = Stored::f32;

  const char* bytes(std::size_t first) const {
    return file->bytes().data() + place + first * width_of(stored);
  }
  // Returns n from `first` on: where they lie, or in `room`.
  const float* at(std::size_t first, std::size_t n, float* room) const;
};

}  // namespace plumb::trace
