// number/philox.hpp: random bits that depend on (key, counter) only, so that an element gets
// the same bits however it is sharded. Philox 4x32 of Salmon et al. [Sal11] with ten rounds, their
// default. Where bits are wanted by the billion: number/ars.hpp.
//
// TESTED   tests/number/philox_test.cpp (the published known answers; numbers that are shared with
//          python/plumbline/generator.py)
// SOURCES  bounds/SOURCES.md [Sal11]
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <string_view>

namespace plumb {

using Bits = std::array<std::uint32_t, 4>;

inline Bits philox(std::uint64_t key, Bits counter) {
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
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
