// number/ars.hpp: sixteen random bits for each of many elements, as cheaply as may be: those of
// stochastic rounding. ARS 4x32 of Salmon et al. [Sal11] is AES's round with keys that sums make;
// five rounds are the fewest they found to pass BigCrush. Like philox's, the bits depend on (key,
// counter) only.
//
// Element e takes word e % 4 of block 4 (e / 32) + e % 16 / 4 of its stream: the low half where
// e / 16 is even, the high one where it is odd. So they fall into the lanes of vectors without a
// shuffle.
//
// Costs: an instruction a round and four blocks where the build has VAES and AVX-512, one a round
// and block where the processor has AES, table lookups elsewhere. The bits are the same.
// TESTED   tests/number/ars_test.cpp (the published known answers)
// SOURCES  bounds/SOURCES.md [Sal11]
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "number/lanes.hpp"
#include "number/philox.hpp"

namespace plumb {

// One block, by tables: what the rest is tested against.
Bits ars(int rounds, const Bits& key, const Bits& counter);

inline constexpr int fast_rounds = 5;
std::uint32_t random_half(std::uint64_t key, std::uint64_t element, std::uint32_t stream);

// The 32 random bits of stochastic rounding. Sixteen mostly decide; the others are made if they do
// not.
inline std::uint32_t random_word(std::uint64_t key, std::uint64_t element) {
  return random_half(key, element, 0) << 16 | random_half(key, element, 1);
}

// The words of stream 0 for a group of 128 elements at once. The keys of the rounds are made once.
class RandomWords {
 public:
  static constexpr std::size_t group_size = 128;
  using Group = std::array<Words, group_size / (2 * lanes)>;  // sixteen blocks
  explicit RandomWords(std::uint64_t key);

  // Element 32 j + l of the group has the low half of lane l of words[j], 32 j + 16 + l the high.
  void operator()(std::uint64_t group, Group& words) const {
    const Longs first = (Longs{} + 16 * group) & Longs{~0ULL, 0, ~0ULL, 0, ~0ULL, 0, ~0ULL, 0};
    for (std::size_t j = 0; j < words.size(); ++j) {
      words[j] = (Words)(first + Longs{4 * j, 0, 4 * j + 1, 0, 4 * j + 2, 0, 4 * j + 3, 0});
    }
#if defined(__VAES__) && defined(__AVX512F__)
    for (Words& block : words) block ^= keys_[0];
    for (std::size_t round = 1; round < fast_rounds; ++round) {
      const auto key = (__m512i)keys_[round];
      for (Words& block : words) block = (Words)_mm512_aesenc_epi128((__m512i)block, key);
    }
    const auto key = (__m512i)keys_[fast_rounds];
    for (Words& block : words) block = (Words)_mm512_aesenclast_epi128((__m512i)block, key);
#else
    encrypt_each(words);
#endif
  }

 private:
  void encrypt_each(Group& words) const;
  std::array<Words, fast_rounds + 1> keys_;  // each four times
};

}  // namespace plumb
