// bounds/sum.hpp: sums in the order that a call asks for.
//
//   promised   as the operation's file says
//   ordered    as number/order.hpp says: what a machine's card knows
//   any        any order, any tree, products rounded or fused: a bound for kernels of other people
//
//   LEMMA    Of n terms x_i that FP32 holds up to e_i, whatever the order,
//              |computed - sum x_i| <= sum e_i + g sum (|x_i| + e_i),  g = r u / (1 - r u),
//            r = n - 1 additions that a term may pass; r = n where products are rounded, too, and
//            then 2^-149 a term for those that underflow. u = 2^-24. No single number is rounded.
//   CHANCE   No partial sum is above M, the larger of the sums of positive and of negative terms, so
//            that energy is at most 2 n (u M)^2; a term below four spacings of M may vanish, and counts
//            as a worst case (theory.md P6, P8).
//   FLUSHES  Where subnormals are flushed each product and each sum may lose 2^-126.
//   KEPT     A kernel may keep each sum in a short format, of roundoff U and spacing h at zero:
//            theory.md D7. Then g = (1 + v)^n - 1, v = (1 + u)(1 + U) - 1, and n h (1 + v)^n more. Only the
//            worst case is derived: numbers of a short format do not round independently.
// SOURCES  theory.md D1, D7, P8; bounds/SOURCES.md [Hig02] 3.1, 4.2
// TESTED   tests/bounds/sum_test.cpp
#pragma once

#include <cmath>
#include <limits>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "bounds/operation.hpp"
#include "bounds/proof/big_float.hpp"
#include "bounds/proof/error_moments.hpp"
#include "bounds/proof/running_error.hpp"
#include "bounds/sees.hpp"
#include "number/order.hpp"
#include "number/rounding.hpp"

namespace plumb::bounds {

// What a kernel has of x when it keeps it in a format: a sum, or a row's mean.
inline float kept_as(float x, const Format& format) { return round_to(x, format); }
inline double kept_as(double x, const Format&) { return x; }
inline BigFloat kept_as(const BigFloat& x, const Format&) { return x; }
inline RunningError kept_as(RunningError x, const Format& format) {
  if (x.exact() && round_to(x.value, format) == x.value) return x;
  const double m = x.most();
  x.err_surely(m <= format.largest() ? term<"sum.kept_as">(half_spacing(m, format))
                                     : std::numeric_limits<double>::infinity(),
               Share::sums);
  x.may_flush(Share::sums);
  return x;
}
[[noreturn]] inline ErrorMoments kept_as(const ErrorMoments&, const Format&) {
  throw std::invalid_argument(
      "moments of sums that a kernel keeps in a short format are not derived");
}

// Collects what the lemma needs.
class SumInAnyOrder {
 public:
  explicit SumInAnyOrder(const Format& in = fp32) : kept_(in) {}
  void add(const RunningError& x) { take(x); }
  void add_product(const RunningError& a, const RunningError& b) {
    RunningError product = multiplied(a, b);
    // FP64 holds the product of two numbers of FP32; of others it rounds by far less than u.
    product.err_surely(a.exact() && b.exact() ? 0 : std::fabs(product.value) * 0x1p-52,
                       Share::sums);
    take(product);
    ++products_;
  }
  RunningError total() const {
    if (!(kept_ == fp32)) return kept_short();
    const double passes = std::max(terms_ - (products_ > 0 ? 0 : 1), 0.0), ru = passes * 0x1p-24;
    RunningError sum = sum_;
    const double size = (positive_ + negative_) * (1 + 0x1p-24);  // and what FP64 lost of it
    const double gamma = ru < 0.5 ? ru / (1 - ru) : infinite;
    if (passes > 0 && size > 0) {
      sum[Share::sums] += term<"sum.any">(gamma * size) + products_ * 0x1p-149;
      count_chance(sum, gamma);
    }
    if (arithmetic_in_force.flushes) {
      sum.err_surely((passes + products_) * term<"sum.flush">(smallest_normal_fp32), Share::sums);
    }
    if (!(size * (1 + gamma) <= 0x1.fffffep127)) sum.err_surely(infinite, Share::sums);
    return sum;
  }

 private:
  static constexpr double infinite = std::numeric_limits<double>::infinity();

  void take(const RunningError& x) {
    const double before = sum_.value;
    sum_.value += x.value;
    sum_.carry(1, x);
    sum_.err_surely(RunningError::lost(before, x.value, sum_.value), Share::sums);
    positive_ += std::max(x.value + x.worst(), 0.0);
    negative_ += std::max(x.worst() - x.value, 0.0);
    most_.push_back(static_cast<float>(x.most()));
    ++terms_;
  }

  RunningError kept_short() const {
    RunningError sum = sum_;
    const double size = (positive_ + negative_) * (1 + 0x1p-24);
    const double v = (1 + 0x1p-24) * (1 + kept_.unit_roundoff()) - 1;
    const double gamma = std::expm1(terms_ * std::log1p(v)) * (1 + 0x1p-40);
    double small = products_ * 0x1p-149 + terms_ * kept_.spacing_at_zero();
    if (arithmetic_in_force.flushes) small += (3 * terms_ + products_) * smallest_normal_fp32;
    if (size > 0) {
      sum.err_surely(term<"sum.kept">(gamma * size) + term<"sum.kept_small">(small * (1 + gamma)),
                     Share::sums);
    }
    if (!(size * (1 + gamma) <= kept_.largest())) sum.err_surely(infinite, Share::sums);
    return sum;
  }

  void count_chance(RunningError& sum, double gamma) const {
    const double roundings = terms_ - 1 + products_;
    const double most = std::max(positive_, negative_) * (1 + gamma) * (1 + 0x1p-20);
    const double half = std::max(0x1p-24 * most, 0x1p-150);
    sum.energy += term<"sum.any_energy">(roundings * half * half);
    double vanishing = products_ * 0x1p-149;
    for (const float x : most_) {
      const double addend = static_cast<double>(x) * (1 + 0x1p-20);
      if (addend < 8 * half) vanishing += std::min(half, addend);
    }
    sum.drift += term<"sum.any_vanishing">(vanishing);
  }

  Format kept_;
  RunningError sum_;
  double positive_ = 0, negative_ = 0, terms_ = 0, products_ = 0;
  std::vector<float> most_;  // of each term
};

template <class T>
class Sum {
 public:
  explicit Sum(const SumsIn& in) : in_(in), keeps_(!(in.kept == fp32)) {
    if constexpr (std::is_same_v<T, RunningError>) any_ = SumInAnyOrder(in.kept);
  }

  void add(const T& x) {
    if (in_.way == SumsIn::Way::promised) {
      chain_ += x;
      shorten(chain_);
    } else {
      keep(x, nullptr);
    }
  }
  void add_product(const T& a, const T& b) {
    using std::fma;
    if (in_.way == SumsIn::Way::promised) {
      chain_ = fma(a, b, chain_);
      shorten(chain_);
    } else {
      keep(a, &b);
    }
  }
  // (One number, used twice: ErrorMoments takes note.)
  void add_square(const T& x) {
    using std::fma;
    if (in_.way == SumsIn::Way::promised) {
      chain_ = fma(x, x, chain_);
      shorten(chain_);
    } else {
      keep(x, &x);
    }
  }
  T total() const {
    if (in_.way == SumsIn::Way::promised) return chain_;
    if constexpr (std::is_same_v<T, RunningError>) {
      if (in_.way == SumsIn::Way::any) return any_.total();
    }
    const auto step = [&](T sum, std::size_t k) {
      using std::fma;
      const Term& term = terms_[k];
      if (term.of == Of::square) {
        sum = fma(term.a, term.a, sum);
      } else if (term.of == Of::product) {
        sum = fma(term.a, term.b, sum);
      } else {
        sum += term.a;
      }
      shorten(sum);
      return sum;
    };
    const auto add = [&](T a, const T& b) {
      a += b;
      shorten(a);
      return a;
    };
    return plumb::total<T>(in_.order, terms_.size(), step, add);
  }

 private:
  enum class Of { number, product, square };
  struct Term {
    T a, b;
    Of of;
  };

  void keep(const T& a, const T* b) {
    if constexpr (std::is_same_v<T, RunningError>) {
      if (in_.way == SumsIn::Way::any) return b != nullptr ? any_.add_product(a, *b) : any_.add(a);
    }
    const Of of = b == nullptr ? Of::number : b == &a ? Of::square : Of::product;
    terms_.push_back({a, of == Of::product ? *b : T(0), of});
  }

  void shorten(T& sum) const {
    if (keeps_) sum = kept_as(sum, in_.kept);
  }

  struct Nothing {
    Nothing() = default;
  };
  SumsIn in_;
  bool keeps_;
  T chain_ = 0;
  std::vector<Term> terms_;
  [[no_unique_address]] std::conditional_t<std::is_same_v<T, RunningError>, SumInAnyOrder, Nothing>
      any_;
};

// A table of sums, whose terms come in any order of its elements.
template <class T>
class SumTable {
 public:
  SumTable(std::size_t rows, std::size_t cols, const SumsIn& in)
      : promised_(in.way == SumsIn::Way::promised && in.kept == fp32), sums_(rows, cols) {
    if (!promised_) as_asked_.assign(rows * cols, Sum<T>(in));
  }

  void add(std::size_t i, std::size_t j, const T& x) {
    if (promised_) {
      sums_(i, j) += x;
    } else {
      as_asked_[i * sums_.cols + j].add(x);
    }
  }
  // Adds one number to each sum.
  void add_to_each(const T* x) {
    if (promised_) {
      for (std::size_t e = 0; e < sums_.size(); ++e) sums_.values[e] += x[e];
    } else {
      for (std::size_t e = 0; e < sums_.size(); ++e) as_asked_[e].add(x[e]);
    }
  }
  void add_product(std::size_t i, std::size_t j, const T& a, const T& b) {
    using std::fma;
    if (promised_) {
      sums_(i, j) = fma(a, b, sums_(i, j));
    } else {
      as_asked_[i * sums_.cols + j].add_product(a, b);
    }
  }
  Matrix<T> totals() && {
    for (std::size_t e = 0; e < as_asked_.size(); ++e) sums_.values[e] = as_asked_[e].total();
    return std::move(sums_);
  }

 private:
  bool promised_;
  Matrix<T> sums_;
  std::vector<Sum<T>> as_asked_;
};

}  // namespace plumb::bounds
