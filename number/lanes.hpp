// number/lanes.hpp: sixteen numbers at once, for the few loops that must run at memory
// speed.
//
// Vector types of GCC and clang: operators work lane by lane, a comparison gives 0 or -1 in each,
// mask ? a : b chooses by lane. Sixteen lanes are one register of AVX-512, two of AVX2, four of
// SSE; the bits are the same everywhere.
//
// TESTED   tests/number/rounding_test.cpp, tests/number/rows_test.cpp,
//          tests/trace/statistics_test.cpp
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

namespace plumb {

inline constexpr std::size_t lanes = 16;
using Floats = float __attribute__((vector_size(4 * lanes)));
using Ints = std::int32_t __attribute__((vector_size(4 * lanes)));
using Words = std::uint32_t __attribute__((vector_size(4 * lanes)));
using Longs = std::uint64_t __attribute__((vector_size(4 * lanes)));  // eight

// Eight numbers of FP64.
inline constexpr std::size_t doubles = 8;
using Doubles = double __attribute__((vector_size(8 * doubles)));
inline double total_of(const Doubles& c) {
  return ((c[0] + c[1]) + (c[2] + c[3])) + ((c[4] + c[5]) + (c[6] + c[7]));
}
inline double largest_of(const Doubles& c) {
  double largest = c[0];
  for (std::size_t l = 1; l < doubles; ++l) largest = c[l] > largest ? c[l] : largest;
  return largest;
}

// Folded in halves: sixteen steps one after the other would cost more than a short row does.
template <class F>
inline float folded(Floats x, const F& both) {
  x = both(x, __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
  x = both(x, __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11));
  x = both(x, __builtin_shufflevector(x, x, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13));
  x = both(x, __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14));
  return x[0];
}
inline float largest_of(const Floats& x) {
  return folded(x, [](const Floats& a, const Floats& b) { return a < b ? b : a; });
}
inline float total_of(const Floats& x) {
  return folded(x, [](const Floats& a, const Floats& b) { return a + b; });
}

// wide = eight numbers of FP32, which GCC 12 widens in halves.
inline void widen(const float* x, Doubles& wide) {
#if defined(__AVX512F__) && !defined(__clang__)
  wide = (Doubles)_mm512_maskz_cvtps_pd(0xff, _mm256_loadu_ps(x));
#else
  using Half = float __attribute__((vector_size(4 * doubles)));
  Half narrow;
  std::memcpy(&narrow, x, sizeof narrow);
  wide = __builtin_convertvector(narrow, Doubles);
#endif
}

// Is any lane of a comparison's result set?
inline bool any(const Ints& mask) {
#ifdef __AVX512F__
  return _mm512_test_epi32_mask((__m512i)mask, (__m512i)mask) != 0;
#else
  const auto pairs = (Longs)mask;
  std::uint64_t all = 0;
  for (std::size_t l = 0; l < sizeof(Longs) / sizeof(std::uint64_t); ++l) all |= pairs[l];
  return all != 0;
#endif
}

// In how many lanes do both differ? Counted beside the vector units, where there are masks.
inline std::size_t count_unequal(const Floats& a, const Floats& b) {
#ifdef __AVX512F__
  return static_cast<std::size_t>(
      std::popcount(_mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_NEQ_UQ)));
#else
  const Ints unequal = a != b;
  std::int32_t count = 0;
  for (std::size_t l = 0; l < lanes; ++l) count -= unequal[l];
  return static_cast<std::size_t>(count);
#endif
}

// Keeps v in its register. GCC 12 reads memory again wherever it needs what it has just loaded:
// stochastic rounding to BF16 ran at 0.37 of memcpy's speed, and with this at 0.52.
inline void keep([[maybe_unused]] Floats& v) {
#if defined(__AVX512F__) && !defined(__clang__)
  asm("" : "+v"(v));
#endif
}

// Prefetches, where the processor's own prefetching does not hide memory's latency. Measured for
// rounding to FP8 in place: 0.72 to 0.96 of memcpy's speed in cache, 0.84 to 1.1 beyond; half as
// far ahead 0.83 beyond, where this distance has 0.87 (medians of seven runs, on a day of slow
// memory). Nothing is accessed: any address will do.
inline void fetch_ahead(const float* x) {
  constexpr std::uintptr_t ahead = 4096;  // bytes
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(x) + ahead), 1);
}

// Calls f(sixteen values, index of the first) for all values and stores what it leaves; the last
// call gets zeros beyond the end.
template <class F>
inline void by_lanes(float* x, std::size_t n, const F& f) {
  Floats v;
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    fetch_ahead(x + i);
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
