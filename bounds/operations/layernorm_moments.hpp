// bounds/operations/layernorm_moments.hpp: mean and inverse deviation of a row, as kernels take them.
//
//   two passes   a sum for the mean, then one of the squares of what is off it
//   one pass     sums of x and of x^2: loses in proportion to (mu / sigma)^2
//   welford      mean and sum of squares brought up to date element by element
//
// SOURCES  theory.md N3, N4; bounds/SOURCES.md [CGL83]
// TESTED   tests/bounds/operations/welford_test.cpp, tests/bounds/forms_test.cpp
#pragma once

#include <bit>
#include <cmath>
#include <stdexcept>

#include "bounds/sees.hpp"
#include "bounds/sum.hpp"
#include "number/rows.hpp"

namespace plumb::bounds {

template <class T>
struct Moments {
  T mean, inverse_deviation;
};

template <class T>
T sum_as_asked(const T* x, std::size_t n, const SumsIn& in) {
  Sum<T> sum(in);
  for (std::size_t j = 0; j < n; ++j) sum.add(x[j]);
  return sum.total();
}
template <class T>
T squares_as_asked(const T* x, std::size_t n, const T& mean, const SumsIn& in) {
  Sum<T> squares(in);
  for (std::size_t j = 0; j < n; ++j) squares.add_square(x[j] - mean);
  return squares.total();
}

// The variance from sums of x and x^2.
template <class T>
Moments<T> one_pass(const T* x, std::size_t n, double eps, const SumsIn& in) {
  using std::sqrt;
  Sum<T> sum(in), squares(in);
  for (std::size_t j = 0; j < n; ++j) {
    sum.add(x[j]);
    squares.add_square(x[j]);
  }
  const T mean = with_named_error(sum.total() / static_cast<T>(n));
  const T variance = squares.total() / static_cast<T>(n) - mean * mean;
  return {mean, with_named_error(T(1) / sqrt(variance + static_cast<T>(eps)))};
}

template <class T>
Moments<T> moments(const T* x, std::size_t n, double eps, const SumsIn& in) {
  using std::sqrt;
  const bool promised = in.way == SumsIn::Way::promised;
  const T sum = promised ? sum_of(x, n) : sum_as_asked(x, n, in);
  const T mean = with_named_error(sum / static_cast<T>(n));
  const T squares = promised ? squares_of(x, n, mean) : squares_as_asked(x, n, mean, in);
  return {mean, with_named_error(T(1) / sqrt(squares / static_cast<T>(n) + static_cast<T>(eps)))};
}

// m + (x - m) / k, given off = x - m. Written out for RunningError, whose steps cannot know that m
// comes twice and its error counts (1 - 1/k) times only: with 1 + 1/k it would grow n-fold along a
// row.
template <class T>
T brought_up_to_date(const T& m, const T&, const T& off, std::size_t k) {
  return m + off / static_cast<T>(k);
}
inline RunningError brought_up_to_date(const RunningError& m, const RunningError& x,
                                       const RunningError& off, std::size_t k) {
  if (k == 1) return x;  // m is 0
  const double weight = 1 / static_cast<double>(k);
  RunningError mean = RunningError::of(m.value + off.value * weight);
  mean.carry(term<"welford.mean">((1 - weight) * (1 + 0x1p-40)), m);
  mean.carry(term<"welford.element">(weight * (1 + 0x1p-40)), x);
  // Rounding x - m, then the quotient, then the sum; FP64's own steps are far below 2^-24 of these.
  const double size = off.most() * (1 + 0x1p-22);
  const double minus = RunningError::half_spacing_fp32(size);
  // A quotient by a power of two is exact above the spacing at zero, where quotients are rounded.
  const double ulps = arithmetic_in_force.divide_ulp;
  const bool exact = std::has_single_bit(k) && ulps <= 0.5;
  const double flush = arithmetic_in_force.flushes ? 2 * smallest_normal_fp32 : 0;
  const double quotient =
      2 * ulps * RunningError::half_spacing_fp32(exact ? 0x1p-149 : (size + minus) * weight) +
      flush;
  if (off.most() == 0) return mean;
  mean.err(term<"welford.minus">(minus * weight), Share::sums);
  mean.err(term<"welford.quotient">(quotient), Share::sums);
  return mean.rounded(Share::sums, (size + minus) * weight + quotient);
}

// Updating, or joining such moments of parts of the row, in any order (theory.md N4).
//
//   mean       |m^ - m| <= max E_x + (n + 1) / 2 u (3 + q) (X + R),  X = max |x|,
//              R = max x - min x,  q = 2 c for quotients of c ulp
//   squares    |S^ - S| <= (1 + g) (2 d sqrt(S W) + W d^2) + g S,  g = gamma_(n + 7 + 2 q),
//              d = 2 |m^ - m|,  W = n log2 n
struct InAnyOrder {
  RunningError mean, squares;
};
inline InAnyOrder welford_in_any_order(const RunningError* x, std::size_t n) {
  double sum = 0, most = 0, error = 0, low = x[0].value, high = x[0].value;
  for (std::size_t j = 0; j < n; ++j) {
    sum += x[j].value;
    most = std::max(most, x[j].most());
    error = std::max(error, x[j].worst());
    low = std::min(low, x[j].value);
    high = std::max(high, x[j].value);
  }
  const auto count = static_cast<double>(n);
  constexpr double u = 0x1p-24 * (1 + 0x1p-10);  // enlarged: squares of u
  const double flush = arithmetic_in_force.flushes ? 4 * smallest_normal_fp32 : 0x1p-147;
  InAnyOrder all{RunningError::of(sum / count), RunningError::of(0)};
  for (std::size_t j = 0; j < n; ++j) {
    const double off = x[j].value - all.mean.value;
    all.squares.value += off * off;
  }
  if (n == 1) {
    all.mean = x[0];
    return all;
  }
  const double range = high - low + 2 * error, q = 2 * arithmetic_in_force.divide_ulp;
  const double mean_error =
      error + term<"welford.mean_any">((count + 1) / 2 * u * (3 + q) * (most + range)) +
      count * flush;
  const double d = 2 * mean_error, w = count * std::log2(count), s = all.squares.value;
  const double passes = count + 7 + 2 * q, g = passes * u / (1 - passes * u);
  const double of_means = term<"welford.means">(2 * d * std::sqrt(s * w) + w * d * d);
  all.mean.err_surely(mean_error, Share::sums);
  all.squares.err_surely((1 + g) * of_means + term<"welford.sum_any">(g * s) + count * flush,
                         Share::sums);
  return all;
}

// Is it asked of a kernel whose updates may come in another order than 0, 1, 2 ...?
inline bool in_another_order(const SumsIn& in) {
  return in.way == SumsIn::Way::any ||
         (in.way == SumsIn::Way::ordered && in.order.kind != Order::Kind::sequential);
}

template <class T>
Moments<T> welford(const T* x, std::size_t n, double eps, const SumsIn& in) {
  using std::fma;
  using std::sqrt;
  if constexpr (std::is_same_v<T, RunningError>) {
    if (in_another_order(in)) {
      const auto [mean, squares] = welford_in_any_order(x, n);
      return {mean, T(1) / sqrt(squares / static_cast<T>(n) + static_cast<T>(eps))};
    }
  }
  T mean = 0;
  T squares = 0;
  for (std::size_t j = 0; j < n; ++j) {
    const T off = x[j] - mean;
    mean = with_named_error(brought_up_to_date(mean, x[j], off, j + 1));
    squares = fma(off, x[j] - mean, squares);
  }
  return {mean, with_named_error(T(1) / sqrt(squares / static_cast<T>(n) + static_cast<T>(eps)))};
}

// By a call's attributes, or by a formula's number where it says nothing itself: 0 and 1 two passes,
// 2 and 3 one, all others Welford's.
template <class T>
auto moments_by(const Call<T>& call) {
  bool once = call.attribute("one_pass", 0) != 0, updating = call.attribute("welford", 0) != 0;
  if (!once && !updating) {
    once = call.form / 2 == 1;
    updating = call.form / 2 >= 2;
  }
  if (once && updating) throw std::invalid_argument("layernorm: one_pass or welford, not both");
  return once ? one_pass<T> : updating ? welford<T> : moments<T>;
}

}  // namespace plumb::bounds
