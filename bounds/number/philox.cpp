#include "bounds/number/philox.hpp"

namespace plumb {

void random_words(std::uint64_t key, std::uint64_t first, std::span<std::uint32_t> out) {
  constexpr std::size_t lanes = 16;
  const std::uint64_t block = first / 4;
  std::size_t done = 0;
  for (; done + 4 * lanes <= out.size(); done += 4 * lanes) {
    std::array<std::uint32_t, lanes> c0, c1, c2{}, c3{};
    for (std::size_t l = 0; l < lanes; ++l) {
      c0[l] = static_cast<std::uint32_t>(block + done / 4 + l);
      c1[l] = static_cast<std::uint32_t>((block + done / 4 + l) >> 32);
    }
    auto k0 = static_cast<std::uint32_t>(key);
    auto k1 = static_cast<std::uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round) {
      for (std::size_t l = 0; l < lanes; ++l) {
        const std::uint64_t a = 0xD2511F53ULL * c0[l];
        const std::uint64_t b = 0xCD9E8D57ULL * c2[l];
        c0[l] = static_cast<std::uint32_t>(b >> 32) ^ c1[l] ^ k0;
        c2[l] = static_cast<std::uint32_t>(a >> 32) ^ c3[l] ^ k1;
        c1[l] = static_cast<std::uint32_t>(b);
        c3[l] = static_cast<std::uint32_t>(a);
      }
      k0 += 0x9E3779B9U;
      k1 += 0xBB67AE85U;
    }
    for (std::size_t l = 0; l < lanes; ++l) {
      out[done + 4 * l] = c0[l];
      out[done + 4 * l + 1] = c1[l];
      out[done + 4 * l + 2] = c2[l];
      out[done + 4 * l + 3] = c3[l];
    }
  }
  for (; done < out.size(); ++done) out[done] = random_block(key, block + done / 4)[done % 4];
}

}  // namespace plumb
