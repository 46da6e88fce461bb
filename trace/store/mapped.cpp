#include "trace/store/mapped.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "number/outcome.hpp"

namespace plumb::trace {
namespace {

void from_bf16(const char* from, std::size_t n, float* into) {
  for (std::size_t e = 0; e < n; ++e) {
    std::uint16_t code;
    std::memcpy(&code, from + 2 * e, sizeof code);
    const std::uint32_t bits = std::uint32_t{code} << 16;
    std::memcpy(into + e, &bits, sizeof bits);
  }
}

void from_fp16(const char* from, std::size_t n, float* into) {
  for (std::size_t e = 0; e < n; ++e) {
    std::uint16_t code;
    std::memcpy(&code, from + 2 * e, sizeof code);
    const std::uint32_t minus = std::uint32_t{code & 0x8000U} << 16;
    const std::uint32_t size = std::uint32_t{code & 0x7fffU} << 13;
    const auto wide = std::bit_cast<std::uint32_t>(std::bit_cast<float>(size) * 0x1p112F);
    const std::uint32_t bits = minus | wide | (size >= 0x0f800000 ? 0x7f800000U : 0U);
    std::memcpy(into + e, &bits, sizeof bits);
  }
}

void from_others(const char* from, Stored stored, std::size_t n, float* into) {
  std::array<double, 512> some;
  const std::size_t width = width_of(stored);
  for (std::size_t e = 0; e < n; e += some.size()) {
    const std::span part(some.data(), std::min(some.size(), n - e));
    std::size_t read = 0;  // each call ends with a number that FP32 does not have
    while (read < part.size()) {
      const std::span bytes(from + (e + read) * width, (part.size() - read) * width);
      read += read_numbers(bytes, stored, part.subspan(read)) + 1;
    }
    std::transform(part.begin(), part.end(), into + e,
                   [](double x) { return static_cast<float>(x); });
  }
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& file) {
  const int opened = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat seen {};
  const bool sized = opened >= 0 && fstat(opened, &seen) == 0;
  size_ = sized ? static_cast<std::size_t>(seen.st_size) : 0;
  void* at = size_ == 0 ? MAP_FAILED : mmap(nullptr, size_, PROT_READ, MAP_SHARED, opened, 0);
  if (opened >= 0) close(opened);
  if (at == MAP_FAILED) {
    throw Failure(file.string() + " cannot be mapped; put it where files can be, as on a disk");
  }
  at_ = static_cast<const char*>(at);
}

MappedFile::~MappedFile() { munmap(const_cast<char*>(at_), size_); }

void numbers_at(const char* bytes, Stored stored, std::size_t n, float* into) {
  if (n == 0) return;  // nobody has to have room for nothing
  if (stored == Stored::f32) {
    std::memcpy(into, bytes, n * sizeof(float));
  } else if (stored == Stored::bf16) {
    from_bf16(bytes, n, into);
  } else if (stored == Stored::f16) {
    from_fp16(bytes, n, into);
  } else {
    from_others(bytes, stored, n, into);
  }
}

const float* Mapped::at(std::size_t first, std::size_t n, float* room) const {
  const char* from = bytes(first);
  const bool aligned = reinterpret_cast<std::uintptr_t>(from) % alignof(float) == 0;
  if (stored == Stored::f32 && aligned) return reinterpret_cast<const float*>(from);
  numbers_at(from, stored, n, room);
  return room;
}

}  // namespace plumb::trace
