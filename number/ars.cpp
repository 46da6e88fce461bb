#include "number/ars.hpp"

#include <bit>
#include <cstring>
#include <span>
#include <vector>

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace plumb {
namespace {

// A product of AES's bytes, polynomials over two elements modulo x^8 + x^4 + x^3 + x + 1.
constexpr std::uint8_t times(unsigned a, unsigned b) {
  unsigned product = 0;
  for (; b != 0; b >>= 1) {
    if (b & 1) product ^= a;
    a = a << 1 ^ (a & 0x80 ? 0x11b : 0);
  }
  return static_cast<std::uint8_t>(product);
}

// AES's substitution of every byte, and the column that a byte of row 0 adds to AES's mixed columns.
struct Tables {
  std::array<std::uint8_t, 256> byte{};
  std::array<std::uint32_t, 256> column{};

  // A byte is replaced by a linear map of its inverse (zero by that of zero).
  constexpr void substitute(std::uint8_t x, std::uint8_t inverse) {
    std::uint8_t s = 0x63;
    for (int turn = 0; turn < 5; ++turn) s ^= std::rotl(inverse, turn);
    byte[x] = s;
    column[x] = times(s, 2) | std::uint32_t{s} << 8 | std::uint32_t{s} << 16 |
                std::uint32_t{times(s, 3)} << 24;
  }

  // Every byte but zero is a power of 3, whose inverse is 0xf6.
  constexpr Tables() {
    substitute(0, 0);
    std::uint8_t power = 1, inverse = 1;
    for (int i = 0; i < 255; ++i) {
      substitute(power, inverse);
      power = times(power, 3);
      inverse = times(inverse, 0xf6);
    }
  }
};
constexpr Tables tables;

// One round: word c is column c, its byte r is row r. Row r comes from r columns further on.
Bits round_of(const Bits& block, const Bits& key, bool last) {
  Bits next = key;
  for (unsigned c = 0; c < 4; ++c) {
    for (unsigned r = 0; r < 4; ++r) {
      const std::uint32_t byte = block[(c + r) % 4] >> 8 * r & 0xff;
      const std::uint32_t column = last ? tables.byte[byte] : tables.column[byte];
      next[c] ^= std::rotl(column, static_cast<int>(8 * r));
    }
  }
  return next;
}

// The next round's key: both halves of the last one move by a constant (Random123, ars.h).
Bits key_after(const Bits& key) {
  const auto moved = [&](int half, std::uint64_t by) {
    return (std::uint64_t{key[2 * half + 1]} << 32 | key[2 * half]) + by;
  };
  const std::uint64_t low = moved(0, 0x9E3779B97F4A7C15U), high = moved(1, 0xBB67AE8584CAA73BU);
  return {static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(low >> 32),
          static_cast<std::uint32_t>(high), static_cast<std::uint32_t>(high >> 32)};
}

using Keys = std::array<Bits, fast_rounds + 1>;

Keys keys_of(std::uint64_t key) {
  Keys keys{{{static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32), 0, 0}}};
  for (std::size_t round = 1; round < keys.size(); ++round)
    keys[round] = key_after(keys[round - 1]);
  return keys;
}

void by_tables(std::span<Bits> blocks, std::span<const Bits> keys) {
  for (Bits& block : blocks) {
    for (std::size_t w = 0; w < 4; ++w) block[w] ^= keys[0][w];
    for (std::size_t round = 1; round < keys.size(); ++round) {
      block = round_of(block, keys[round], round + 1 == keys.size());
    }
  }
}

#ifdef __x86_64__
__attribute__((target("aes"))) void by_instructions(std::span<Bits> blocks, const Keys& keys) {
  __m128i key[fast_rounds + 1];  // in a std::array it would lose its alignment
  for (std::size_t round = 0; round < keys.size(); ++round) {
    std::memcpy(&key[round], &keys[round], sizeof key[round]);
  }
  for (Bits& bits : blocks) {
    __m128i block;
    std::memcpy(&block, &bits, sizeof block);
    block = _mm_xor_si128(block, key[0]);
    for (std::size_t round = 1; round < fast_rounds; ++round) {
      block = _mm_aesenc_si128(block, key[round]);
    }
    block = _mm_aesenclast_si128(block, key[fast_rounds]);
    std::memcpy(&bits, &block, sizeof block);
  }
}
#endif

void encrypt(std::span<Bits> blocks, const Keys& keys) {
#ifdef __x86_64__
  static const bool has_instructions = __builtin_cpu_supports("aes");
  if (has_instructions) return by_instructions(blocks, keys);
#endif
  by_tables(blocks, keys);
}

}  // namespace

Bits ars(int rounds, const Bits& key, const Bits& counter) {
  std::vector<Bits> keys{key};
  for (int round = 0; round < rounds; ++round) keys.push_back(key_after(keys.back()));
  Bits block = counter;
  by_tables({&block, 1}, keys);
  return block;
}

std::uint32_t random_half(std::uint64_t key, std::uint64_t element, std::uint32_t stream) {
  const std::uint64_t at = 4 * (element / 32) + element % 16 / 4;
  Bits block{static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at >> 32), stream, 0};
  encrypt({&block, 1}, keys_of(key));
  return block[element % 4] >> (element / 16 % 2 * 16) & 0xffffU;
}

RandomWords::RandomWords(std::uint64_t key) {
  const Keys keys = keys_of(key);
  for (std::size_t round = 0; round < keys.size(); ++round) {
    keys_[round] =
        std::bit_cast<Words>(std::array{keys[round], keys[round], keys[round], keys[round]});
  }
}

void RandomWords::encrypt_each(Group& words) const {
  Keys keys;
  for (std::size_t round = 0; round < keys.size(); ++round) {
    std::memcpy(&keys[round], &keys_[round], sizeof keys[round]);
  }
  auto blocks = std::bit_cast<std::array<Bits, 16>>(words);
  encrypt(blocks, keys);
  words = std::bit_cast<Group>(blocks);
}

}  // namespace plumb
