// number/rows.hpp: sums, largest numbers and exponentials along a row, fast where their
// order is free.
//
// Over FP64 an operation is the value: any order will do, since the difference of two orders is the
// share `judge` of each tolerance. There eight chains run side by side. Over every other number
// type one element follows the other, as promised.
//
// CLAIM    exponential: relative error below 2^-51 where the result is a normal number
// TESTED   tests/number/rows_test.cpp, against MPFR; tests/bench/reference.cpp
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

#include "number/exponential.hpp"
#include "number/lanes.hpp"

namespace plumb {

// Calls f(eight numbers of the row, which of four sums is to take them) for all of them, in order;
// the last call gets `rest` beyond the end. (One sum alone would wait for each addition before the
// next.)
template <class F>
void by_doubles(const double* x, std::size_t n, double rest, const F& f) {
  Doubles v;
  std::size_t j = 0;
  for (; j + 4 * doubles <= n; j += 4 * doubles) {
    for (std::size_t i = 0; i < 4; ++i) {
      std::memcpy(&v, x + j + doubles * i, sizeof v);
      f(v, i);
    }
  }
  for (; j < n; j += doubles) {
    v = Doubles{} + rest;
    std::memcpy(&v, x + j, std::min(doubles, n - j) * sizeof(double));
    f(v, 0);
  }
}
using FourSums = std::array<Doubles, 4>;
inline double total_of(const FourSums& sums) {
  return total_of((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

// The largest of a row of at least one number.
template <class T>
T largest_of(const T* x, std::size_t n) {
  if constexpr (std::is_same_v<T, double>) {
    Doubles m = Doubles{} + x[0];
    by_doubles(x, n, x[0], [&](const Doubles& v, std::size_t) { m = m < v ? v : m; });
    return largest_of(m);
  } else {
    return *std::max_element(x, x + n);
  }
}

// sum x_j, and sum (x_j - mean)^2 by fused multiply-adds.
template <class T>
T sum_of(const T* x, std::size_t n) {
  if constexpr (std::is_same_v<T, double>) {
    FourSums c{};
    by_doubles(x, n, 0, [&](const Doubles& v, std::size_t i) { c[i] += v; });
    return total_of(c);
  } else {
    T c = 0;
    for (std::size_t j = 0; j < n; ++j) c += x[j];
    return c;
  }
}

template <class T>
T squares_of(const T* x, std::size_t n, const T& mean) {
  if constexpr (std::is_same_v<T, double>) {
    FourSums c{};
    by_doubles(x, n, mean,
               [&](const Doubles& v, std::size_t i) { c[i] += (v - mean) * (v - mean); });
    return total_of(c);
  } else {
    using std::fma;
    T c = 0;
    for (std::size_t j = 0; j < n; ++j) {
      const T off = x[j] - mean;  // one number, used twice: ErrorMoments takes note
      c = fma(off, off, c);
    }
    return c;
  }
}

// exp(z) = 2^k exp(r), |r| <= ln(2) / 2: Taylor's polynomial of degree 13, whose remainder is below
// 2^-57 of it.
inline void exponential(Doubles& z) {
  using namespace exponentials_of;
  constexpr double lowest = -746, highest = 710;  // there: 0 and infinity
  z = z < lowest ? Doubles{} + lowest : z;
  z = z > highest ? Doubles{} + highest : z;
  const Doubles shifted = z * log2e + to_whole;
  const Doubles k = shifted - to_whole;
  const Doubles r = (z - k * ln2_first) - k * ln2_second;
  Doubles power = Doubles{} + inverse_factorials[13];
  for (std::size_t i = 13; i-- > 0;) power = power * r + inverse_factorials[i];
  // 2^k as a product of two normal numbers, since k goes down to -1076.
  using Wholes = std::int64_t __attribute__((vector_size(64)));
  const Wholes n = (Wholes)shifted - (Wholes)(Doubles{} + to_whole);
  const Wholes half = n >> 1;
  z = power * (Doubles)((half + 1023) << 52) * (Doubles)((n - half + 1023) << 52);
}

// exp(x_j - shift) of a row.
template <class T>
std::vector<T> exponentials(const T* x, std::size_t n, const T& shift) {
  std::vector<T> y(n);
  if constexpr (std::is_same_v<T, double>) {
    std::size_t j = 0;
    by_doubles(x, n, 0, [&](const Doubles& v, std::size_t) {
      Doubles z = v - shift;
      exponential(z);
      std::memcpy(&y[j], &z, sizeof(double) * std::min(doubles, n - j));
      j += doubles;
    });
  } else {
    for (std::size_t j = 0; j < n; ++j) y[j] = exp(x[j] - shift);
  }
  return y;
}

}  // namespace plumb
