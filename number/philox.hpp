// number/philox.hpp: random bits that depend on (key, counter) only, so that an element gets
// the same bits however it is sharded. Philox 4x32 of Salmon et al. [Sal11]: ten rounds, their
// default with room to spare; seven, the fewest they found to pass BigCrush, where bits are wanted
// by the billion (random_half).
//
// TESTED   tests/number/philox_test.cpp (the published known answers)
// SOURCES  bounds/SOURCES.md [Sal11]
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <string_view>

#include "number/lanes.hpp"

namespace plumb {

using Bits = std::array<std::uint32_t, 4>;

template <int rounds = 10>
Bits philox(std::uint64_t key, Bits counter) {
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < rounds; ++round) {
    const std::uint64_t a = 0xD2511F53ULL * counter[0];
    const std::uint64_t b = 0xCD9E8D57ULL * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ k0, static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ k1,
               static_cast<std::uint32_t>(a)};
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return counter;
}

// Four random words for the block of elements [4 block, 4 block + 4).
inline Bits random_block(std::uint64_t key, std::uint64_t block) {
  return philox(key,
                {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0});
}

// Sixteen random bits for each of many elements, as cheaply as may be: a group of 128 elements
// takes the sixteen blocks [16 group, 16 group + 16) of `stream`. Element 16 i + l of the group
// gets half i % 2 (the low one first) of word i / 2 of block l: what falls into the lanes without a
// shuffle.
inline constexpr std::size_t group_size = 128;
inline constexpr int fast_rounds = 7;
inline std::uint32_t random_half(std::uint64_t key, std::uint64_t element, std::uint32_t stream) {
  const std::uint64_t at = element % group_size, block = 16 * (element / group_size) + at % 16;
  const Bits bits = philox<fast_rounds>(
      key, {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), stream, 0});
  return bits[at / 32] >> (at / 16 % 2 * 16) & 0xffffU;
}

// The 32 random bits of stochastic rounding. Sixteen mostly decide; the others are made if they do
// not.
inline std::uint32_t random_word(std::uint64_t key, std::uint64_t element) {
  return random_half(key, element, 0) << 16 | random_half(key, element, 1);
}

// The same halves for a whole group at once. The keys of the rounds are made once.
class RandomHalves {
 public:
  explicit RandomHalves(std::uint64_t key);

  // Lane l of halves[i] is for element 16 i + l of the group. Eight blocks fill a register: their
  // words lie in the low halves of its lanes, what lies in the high halves is ignored. So each word
  // has two registers, of the even and of the odd blocks.
  std::array<Words, 8> operator()(std::uint64_t group) const {
    std::array<std::array<Longs, 2>, 4> c{};
    for (std::size_t odd = 0; odd < 2; ++odd) {
      c[0][odd] = 16 * group + odd + Longs{0, 2, 4, 6, 8, 10, 12, 14};
      c[1][odd] = c[0][odd] >> 32;
    }
    for (const auto& [k0, k1] : keys_) {
      for (std::size_t odd = 0; odd < 2; ++odd) {
        Longs a, b;
        multiply_low(c[0][odd], 0xD2511F53U, a);
        multiply_low(c[2][odd], 0xCD9E8D57U, b);
        c[0][odd] = (b >> 32) ^ c[1][odd] ^ k0;
        c[2][odd] = (a >> 32) ^ c[3][odd] ^ k1;
        c[1][odd] = b;
        c[3][odd] = a;
      }
    }
    std::array<Words, 8> halves;
    for (std::size_t w = 0; w < 4; ++w) {
      const Words word = (Words)((c[w][0] & 0xffffffffU) | (c[w][1] << 32));
      halves[2 * w] = word & 0xffffU;
      halves[2 * w + 1] = word >> 16;
    }
    return halves;
  }

 private:
  std::array<std::array<std::uint64_t, 2>, fast_rounds> keys_;
};

// Uniform in [0, 1) for one element.
inline double uniform(std::uint64_t key, std::uint64_t element) {
  return static_cast<double>(random_block(key, element / 4)[element % 4]) * 0x1p-32;
}

// Standard normal for one element: Box-Muller on two words of a block of its own.
inline double normal(std::uint64_t key, std::uint64_t element) {
  const Bits bits = random_block(key, element);
  const double radius = (static_cast<double>(bits[0]) + 1) * 0x1p-32;  // in (0, 1]
  const double angle = static_cast<double>(bits[1]) * 0x1p-32;
  return std::sqrt(-2 * std::log(radius)) * std::cos(2 * std::numbers::pi * angle);
}

// A key from a seed and a name (FNV-1a over the name, mixed by one Philox block).
inline std::uint64_t key_of(std::uint64_t seed, std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  const Bits mixed = philox(seed, {static_cast<std::uint32_t>(hash),
                                   static_cast<std::uint32_t>(hash >> 32), 0x706c756dU, 0});
  return (static_cast<std::uint64_t>(mixed[0]) << 32) | mixed[1];
}

}  // namespace plumb
