// Are the bits of every trace what they were? A change of the code that means to move none of them
// (a file renamed, a function split) leaves tests/cli/digests.csv as it is. A change that means to
// writes the digests that the failures print there, and says in CHANGELOG.md which and why.
//
// A digest: FNV-1a (64 bits) over name, dtype, shape and bytes of each tensor in each rank's file,
// in the order of ranks, then of names. Headers, manifests and promises are left out: their
// spelling may change, numbers may not.
#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "tests/cli/program.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::digests_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct Row {
  std::string digest, options;
};

std::vector<Row> rows() {
  std::ifstream in(PLUMB_SOURCE_DIR "/tests/cli/digests.csv");
  std::vector<Row> all;
  std::string line;
  std::getline(in, line);  // the names of the columns
  while (std::getline(in, line)) {
    const std::size_t comma = line.find(',');
    all.push_back({line.substr(0, comma), line.substr(comma + 1)});
  }
  return all;
}

class Digest {
 public:
  void add(std::string_view bytes) {
    for (const char c : bytes) hash_ = (hash_ ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  }
  std::string text() const {
    char digits[17];
    std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash_));
    return digits;
  }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325U;
};

void add_file(const fs::path& file, Digest& digest) {
  std::ifstream in(file, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  const std::string_view data = std::string_view(bytes).substr(8 + length);
  const json header = json::parse(bytes.substr(8, length));
  for (const auto& [name, tensor] : header.items()) {
    if (name == "__metadata__") continue;
    const std::size_t first = tensor.at("data_offsets")[0], last = tensor.at("data_offsets")[1];
    digest.add(name + tensor.at("dtype").dump() + tensor.at("shape").dump());
    digest.add(data.substr(first, last - first));
  }
}

class Digests : public InFolder, public testing::WithParamInterface<Row> {
 protected:
  static void SetUpTestSuite() { make_folder("plumb-digests-"); }
};

TEST_P(Digests, OfATraceIsWhatItWas) {
  const auto& [digest, options] = GetParam();
  const Said said = plumb("train " + options + small_sizes + "-o " + at("trace"));
  ASSERT_EQ(said.code, 0) << said.out;
  std::map<std::string, fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder() / "trace")) {
    if (entry.path().extension() == ".safetensors") files[entry.path().string()] = entry.path();
  }
  ASSERT_FALSE(files.empty());
  Digest made;
  for (const auto& [name, file] : files) add_file(file, made);
  fs::remove_all(folder() / "trace");
  EXPECT_EQ(made.text(), digest) << made.text() << "," << options;
}

INSTANTIATE_TEST_SUITE_P(All, Digests, testing::ValuesIn(rows()));

}  // namespace
}  // namespace plumb::digests_test
