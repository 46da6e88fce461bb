// Is what is committed for the fuzzers read, or refused in one line, in memory that its size allows?
// Inputs by which a reader once failed are among it. Finding new ones is for ./run fuzz.
#include <gtest/gtest.h>

#include <fstream>

#include "tests/fuzz/reader.hpp"

namespace plumb::fuzz {
namespace {

namespace fs = std::filesystem;

struct Input {
  std::string name, bytes;
};

std::vector<Input> inputs_of(const std::string& reader) {
  std::vector<Input> all;
  const fs::path folder = fs::path(PLUMB_SOURCE_DIR "/tests/fuzz/corpus") / reader;
  if (!fs::exists(folder)) return all;
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::ifstream in(entry.path(), std::ios::binary);
    all.push_back({entry.path().filename(), {std::istreambuf_iterator<char>(in), {}}});
  }
  return all;
}

TEST(Fuzz, CorpusIsReadOrRefused) {
  for (const Reader& reader : all_readers()) {
    const auto inputs = inputs_of(reader.name());
    EXPECT_GE(inputs.size(), 2U) << reader.name() << " has no corpus";
    EXPECT_NO_THROW(reader(""));
    for (const auto& [name, bytes] : inputs) {
      EXPECT_NO_THROW(reader(bytes)) << reader.name() << "/" << name;
    }
  }
}

// What fuzzers rarely grow: an object in which a field nests deep, or is long.
TEST(Fuzz, DeepAndLongInputsAreReadOrRefused) {
  constexpr std::size_t n = 200'000;
  const std::string deep = "{\"deep\":" + std::string(n, '[') + std::string(n, ']') + ",";
  const std::string wide = "{\"long\":\"" + std::string(n, 'x') + "\",";
  for (const Reader& reader : all_readers()) {
    for (const auto& [name, bytes] : inputs_of(reader.name())) {
      for (std::size_t at = bytes.find('{'); at != bytes.npos && at < 400;
           at = bytes.find('{', at + 1)) {
        for (const std::string& more : {deep, wide}) {
          std::string grown = bytes;
          EXPECT_NO_THROW(reader(grown.replace(at, 1, more))) << reader.name() << "/" << name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace plumb::fuzz
