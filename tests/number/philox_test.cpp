#include "number/philox.hpp"
#include "tests/support/rooms.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

namespace plumb::philox_test {
namespace {

// Known answers published with Random123 (kat_vectors, philox4x32 10 and philox4x32 7).
TEST(Philox, GivesThePublishedAnswers) {
  EXPECT_EQ(philox(0, {0, 0, 0, 0}), (Bits{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(0xffffffffffffffff, {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}),
            (Bits{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0a4093822, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (Bits{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, GivesAnElementTheSameBitsInEverySlice) {
  for (std::uint64_t e = 0; e < 40; ++e) {
    EXPECT_EQ(uniform(5, e), random_block(5, e / 4)[e % 4] * 0x1p-32);
  }
}

// plumbline.generator (Python) is held to the same numbers.
TEST(Philox, HasTheNumbersThatPythonShares) {
  std::ifstream file(PLUMB_SOURCE_DIR "/tests/number/generator.json");
  const auto vectors = nlohmann::json::parse(file).at("vectors");
  ASSERT_EQ(vectors.size(), 12U);
  for (const auto& v : vectors) {
    const std::uint64_t key = key_of(v.at("seed"), v.at("name").get<std::string>());
    EXPECT_EQ(key, v.at("key"));
    for (std::size_t e = 0; e < 12; ++e) {
      EXPECT_EQ(uniform(key, e), v.at("uniform")[e]);
      const auto drawn = static_cast<float>(0.5 + 0.02 * normal(key, e));
      EXPECT_EQ(drawn, v.at("normal")[e].get<float>()) << v.at("name");
    }
  }
}

TEST(Philox, KeysOfNamesDiffer) {
  std::set<std::uint64_t> keys;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    for (const char* name : {"a", "b", "ab", "layer.0", "layer.1", ""}) {
      keys.insert(key_of(seed, name));
    }
  }
  EXPECT_EQ(keys.size(), 120U);
}

}  // namespace
}  // namespace plumb::philox_test
