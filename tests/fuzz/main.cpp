// The fuzzers, one program: PLUMB_READER=npy build-fuzz/tests/fuzz FOLDERS. libFuzzer has the main.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "tests/fuzz/reader.hpp"

namespace {

std::optional<plumb::fuzz::Reader> reader;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  const char* name = std::getenv("PLUMB_READER");
  reader = plumb::fuzz::reader_named(name == nullptr ? "" : name);
  (*reader)("");  // what is made once is made
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  (*reader)({reinterpret_cast<const char*>(data), size});
  return 0;
}
