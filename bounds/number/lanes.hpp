// bounds/number/lanes.hpp: sixteen numbers at once, for the few loops that must run at memory
// speed.
//
// Vector types of GCC and clang: operators work lane by lane, a comparison gives 0 or -1 in each,
// mask ? a : b chooses by lane. Sixteen lanes are one register of AVX-512, two of AVX2, four of
// SSE; the bits are the same everywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace plumb {

inline constexpr std::size_t lanes = 16;
using Floats = float __attribute__((vector_size(4 * lanes)));
using Ints = std::int32_t __attribute__((vector_size(4 * lanes)));
using Words = std::uint32_t __attribute__((vector_size(4 * lanes)));

// Calls f(sixteen values, index of the first) for all values and stores what it leaves; the last
// call gets zeros beyond the end.
template <class F>
inline void by_lanes(float* x, std::size_t n, const F& f) {
  Floats v;
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    std::memcpy(&v, x + i, sizeof v);
    f(v, i);
    std::memcpy(x + i, &v, sizeof v);
  }
  if (i == n) return;
  v = Floats{};
  std::memcpy(&v, x + i, (n - i) * sizeof(float));
  f(v, i);
  std::memcpy(x + i, &v, (n - i) * sizeof(float));
}

}  // namespace plumb
