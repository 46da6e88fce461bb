#include "number/ars.hpp"
#include "tests/support/rooms.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace plumb::ars_test {
namespace {

// Known answers published with Random123 (kat_vectors, ars4x32 10): counter, key.
TEST(Ars, GivesThePublishedAnswers) {
  EXPECT_EQ(ars(10, {0, 0, 0, 0}, {0, 0, 0, 0}),
            (Bits{0x8d73ee19, 0x506401ef, 0x13c2dbe4, 0x0cbe9c0d}));
  EXPECT_EQ(ars(10, {0xa4093822, 0x299f31d0, 0x082efa98, 0xec4e6c89},
                {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (Bits{0xa516e7d6, 0x8357ad74, 0x5b59b3ec, 0x8763fff3}));
  EXPECT_EQ(
      ars(10, {0xffffffff, 0xffffffff, 0, 0}, {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}),
      (Bits{0xbb3743b1, 0x9f635551, 0xecbc87fc, 0xa19478a9}));
}

// What the processor's instructions make, of one element and of a group, is what the tables make.
TEST(Ars, MakesTheWordsOfAGroupAsItMakesThemOneByOne) {
  constexpr std::uint64_t key = 0x299f31d0a4093822;
  const RandomWords random(key);
  for (const std::uint64_t group : {0ULL, 1ULL, 77ULL, (1ULL << 28) - 1, 1ULL << 28, 1ULL << 40}) {
    RandomWords::Group words;
    random(group, words);
    std::set<std::uint32_t> different;
    for (std::size_t e = 0; e < RandomWords::group_size; ++e) {
      const std::uint32_t half = words[e / 32][e % 16] >> (e / 16 % 2 * 16) & 0xffffU;
      const std::uint64_t block = 16 * group + 4 * (e / 32) + e % 16 / 4;
      const Bits bits =
          ars(fast_rounds, {0xa4093822, 0x299f31d0, 0, 0},
              {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0});
      ASSERT_EQ(half, bits[e % 4] >> (e / 16 % 2 * 16) & 0xffffU) << group << " " << e;
      ASSERT_EQ(half, random_half(key, group * RandomWords::group_size + e, 0))
          << group << " " << e;
      different.insert(half);
    }
    EXPECT_GT(different.size(), 120U);  // 128 draws of 65,536
  }
}

// Of many draws each bit is one half of the time, and pairs of bits agree half of the time.
TEST(Ars, DrawsEachBitHalfOfTheTime) {
  constexpr std::size_t n = 1 << 15;
  std::array<int, 16> ones{};
  std::array<std::array<int, 16>, 16> agree{};
  for (std::size_t e = 0; e < n; ++e) {
    const std::uint32_t half = random_half(5, e, 0);
    for (std::size_t i = 0; i < 16; ++i) {
      ones[i] += static_cast<int>(half >> i & 1U);
      for (std::size_t j = 0; j < i; ++j) {
        agree[i][j] += static_cast<int>(~(half >> i ^ half >> j) & 1U);
      }
    }
  }
  const double limit = 5 * std::sqrt(n / 4.0);  // 136 counts: once in 10,000 generators
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_NEAR(ones[i], n / 2.0, limit) << i;
    for (std::size_t j = 0; j < i; ++j) EXPECT_NEAR(agree[i][j], n / 2.0, limit) << i << " " << j;
  }
}

}  // namespace
}  // namespace plumb::ars_test
