// bounds/proof/running_error.hpp: an FP64 number, and how far an FP32 computation of it may be
// away.
//
// An operation is written once, over a number type. Over float it is the evaluation, over double
// the value, and over RunningError it is the proof: each arithmetic step below is one lemma, so the
// bound of an operation follows its evaluation line by line and cannot forget one.
//
//   CLAIM   Let x^ be what the FP32 evaluation holds where this one holds a RunningError x. Then
//           |x^ - x.value| <= x.worst(), provided float operations round to nearest, subnormals
//           are kept and exp, log, erf have an error below one ulp (c_e = 2, in units of u).
//   LEMMAS  with a^ = a + da, |da| <= A, |a^| <= |a| + A, and so for b, the error is at most
//     a + b      A + B                                                    [Hig02 3.4]
//     a b        |b| A + (|a| + A) B
//     a / b      (A + |a / b| B) / (|b| - B)                  infinite if B >= |b|
//     sqrt a     min(sqrt A, A / (sqrt a + sqrt(a - A)))
//     exp a      exp(a) (e^A - 1), then one ulp
//     log a      -log(1 - A / a), then one ulp
//     erf a      A 2 exp(-m^2) / sqrt(pi), m = max(|a| - A, 0), then one ulp
//     tanh a     A / cosh(m)^2, m as above, then one ulp
//     rounding   half a spacing at |x| + worst: FP32's after each step, another format's at a cast;
//                nothing when operands are exact and the result fits.
//           Where there is no bound, worst() is infinite or NaN, and stays so.
//   SHARES  each rounding is booked under its cause, and every lemma is linear in the shares.
//   ENERGY  the sum of squares of what each rounding may contribute: with independent roundings of
//           mean zero the error exceeds sqrt(2 ln(2/delta) energy) with probability <= delta
//           (theory.md P4, [HI23]). A number that is used more than once would be counted as if it
//           were several; with_named_error() moves its energy to `common`, which is added up as
//           worst cases are. What is added to a number some spacings or more above it may vanish each time:
//           `drift` is what such roundings, which are no chance, come to in the worst case
//           (theory.md P8).
//   SLACK   The FP64 steps here and in `value` err too. Each step's half spacing is enlarged by
//           2^-24 of itself, 2^-48 of the result: more than the 2^-53 of a double operation and,
//           as all terms are >= 0, more than any 2^20 roundings of the bound itself (2^-33).
//   OTHERS  Functions of so many ulp, subnormals that are flushed and products that are not fused:
//           the Arithmetic in force (bounds/proof/arithmetic.hpp, theory.md C3).
// NOT FOR  machines that truncate: their lemma is another one.
// SOURCES  theory.md D3, P4, P8; bounds/SOURCES.md [Hig02] [HI23]
// TESTED   tests/bounds/proof/running_error_test.cpp, tests/bounds/operations/*_test.cpp
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "bounds/proof/arithmetic.hpp"
#include "bounds/proof/term.hpp"
#include "bounds/sees.hpp"
#include "number/exponential.hpp"
#include "number/format.hpp"

namespace plumb::bounds {

using plumb::exp;  // of floats, beside that of RunningError

enum class Share : std::size_t { sums, steps, functions, wire, stored };
inline constexpr std::size_t shares = 5;

// At least half the spacing at every magnitude up to m > 0, of a format with that unit roundoff and
// that spacing at zero.
inline double half_spacing(double m, double unit_roundoff, double at_zero) {
  constexpr std::uint64_t exponent = 0x7ff0000000000000ULL;
  const auto bits = std::bit_cast<std::uint64_t>(m * (1 + 0x1p-40));  // m may be rounded down
  const double power = std::bit_cast<double>(bits & exponent);
  return (1 + 0x1p-24) * std::max(power * unit_roundoff, at_zero / 2);
}
inline double half_spacing(double m, const Format& of) {
  return half_spacing(m, of.unit_roundoff(), of.spacing_at_zero());
}

// What a number keeps of its errors: all of it, as SHARES and ENERGY say,
struct AllCauses {
  std::array<double, shares> share{};  // worst case, by cause
  double common = 0;                   // see ENERGY
  double drift = 0;                    // of roundings that depend on each other
  double energy = 0;

  double& operator[](Share s) { return share[static_cast<std::size_t>(s)]; }
  double operator[](Share s) const { return share[static_cast<std::size_t>(s)]; }
  double worst() const { return share[0] + share[1] + share[2] + share[3] + share[4]; }
  void book(double c, Share cause) {
    (*this)[cause] += c;
    energy += c * c;
  }
  void book_surely(double c, Share cause) {
    (*this)[cause] += c;
    drift += c;
  }
  void carry_books(double factor, const AllCauses& x) {
    for (std::size_t s = 0; s < shares; ++s) share[s] += factor * x.share[s];
    common += factor * x.common;
    drift += factor * x.drift;
    energy += factor * factor * x.energy;
  }
};

// or the worst case and no more: the same bound in a fraction of the time, and nobody knows why.
struct WorstCase {
  double steps = 0, stored = 0;  // the cast at the end, and all before

  double worst() const { return steps + stored; }
  double& operator[](Share s) { return s == Share::stored ? stored : steps; }
  void book(double c, Share cause) { (*this)[cause] += c; }
  void book_surely(double c, Share cause) { (*this)[cause] += c; }
  void carry_books(double factor, const WorstCase& x) {
    steps += factor * x.steps;
    stored += factor * x.stored;
  }
};

template <class Books>
struct Running : Books {
  double value = 0;

  Running() = default;
  // A number written in the code or read from an input: FP32 holds its nearest neighbour.
  template <class Number, class = std::enable_if_t<std::is_arithmetic_v<Number>>>
  Running(Number x) : value(static_cast<double>(x)) {
    err_surely(
        term<"running_error.read">(
            (1 + 0x1p-24) * std::fabs(static_cast<double>(static_cast<float>(value)) - value)),
        Share::steps);
    may_flush(Share::steps);
  }
  explicit operator std::size_t() const { return static_cast<std::size_t>(value); }

  using Books::worst;
  double most() const { return std::fabs(value) + worst(); }
  bool exact() const { return worst() == 0; }
  // Is it a number of FP32, without any error?
  bool fits() const {
    if (most() == 0) return true;
    return exact() && static_cast<double>(static_cast<float>(value)) == value && !is_flushed();
  }
  // May a machine that flushes make it zero?
  bool is_flushed() const {
    return arithmetic_in_force.flushes && value != 0 && std::fabs(value) < smallest_normal_fp32;
  }
  // What a flush loses, where the number may be subnormal.
  void may_flush(Share cause) {
    if (!arithmetic_in_force.flushes) return;
    const double m = most();
    if (m == 0 || std::fabs(value) - worst() >= smallest_normal_fp32) return;
    err_surely(term<"running_error.flush">(std::min(m, smallest_normal_fp32)), cause);
  }

  // Adds one more error of at most c.
  void err(double c, Share cause) { Books::book(c, cause); }
  // Adds an error of at most c in which chance has no part.
  void err_surely(double c, Share cause) { Books::book_surely(c, cause); }
  // The FP32 rounding at the end of a step. Beyond FP32's range there is no bound.
  Running& rounded(Share cause) {
    const double m = most();
    if (fits()) return *this;
    err(m <= 0x1.fffffep127 ? term<"running_error.rounding">(half_spacing_fp32(m))
                            : std::numeric_limits<double>::infinity(),
        cause);
    may_flush(cause);
    return *this;
  }
  // The end of a step that is off by so many ulp; half an ulp: rounded to nearest.
  Running& within(double ulps, Share cause) {
    if (ulps <= 0.5) return rounded(cause);
    const double m = most();
    if (m == 0) return *this;
    const double c = 2 * ulps * half_spacing_fp32(m);
    err(m + c <= 0x1.fffffep127 ? term<"running_error.within">(c)
                                : std::numeric_limits<double>::infinity(),
        cause);
    may_flush(cause);
    return *this;
  }
  // The rounding after an addition of at most `addend` to a number of FP32, which the result could
  // have kept: so no more than the addend is lost. Where the addend is a few spacings or less,
  // roundings depend on each other (a small number vanishes each time it is added): these add up as
  // worst cases do.
  Running& rounded(Share cause, double addend) {
    if (fits()) return *this;
    const double half = half_spacing_fp32(most());
    if (!(addend < 8 * half) || !(most() <= 0x1.fffffep127)) return rounded(cause);
    const double lost = term<"running_error.stagnation">(std::min(half, addend * (1 + 0x1p-40)));
    err_surely(lost, cause);
    may_flush(cause);
    return *this;
  }
  static double half_spacing_fp32(double m) { return half_spacing(m, 0x1p-24, 0x1p-149); }

  // This number's errors, times factor, on top of x's.
  void carry(double factor, const Running& x) { Books::carry_books(factor, x); }
  static Running of(double value) {  // no errors yet
    Running x;
    x.value = value;
    return x;
  }

  friend Running operator-(Running a) {
    a.value = -a.value;
    return a;
  }
  // |a + b - sum|, where sum is a + b in FP64 (TwoSum [Hig02 4.3]). Without it two numbers far
  // apart would look like an exact sum.
  static double lost(double a, double b, double sum) {
    const double back = sum - a;
    return term<"running_error.lost">(std::fabs((a - (sum - back)) + (b - back)));
  }
  friend Running added(const Running& a, const Running& b, double sign, Share cause) {
    Running sum = a;
    sum.value += sign * b.value;
    sum.carry(term<"running_error.sum">(1), b);
    sum.err_surely(lost(a.value, sign * b.value, sum.value), cause);
    return sum.rounded(cause, std::min(a.most(), b.most()));
  }
  friend Running multiplied(const Running& a, const Running& b) {
    Running product = of(a.value * b.value);
    product.carry(term<"running_error.product_left">(std::fabs(b.value)), a);
    product.carry(term<"running_error.product_right">(a.most()), b);
    return product;
  }
  friend Running operator+(const Running& a, const Running& b) {
    return added(a, b, 1, Share::steps);
  }
  friend Running operator-(const Running& a, const Running& b) {
    return added(a, b, -1, Share::steps);
  }
  friend Running operator*(const Running& a, const Running& b) {
    return multiplied(a, b).rounded(Share::steps);
  }
  friend Running operator/(const Running& a, const Running& b) {
    Running q = of(a.value / b.value);
    const double least = std::fabs(b.value) * (1 - 0x1p-40) - b.worst();
    const double factor = least > 0 ? 1 / least : std::numeric_limits<double>::infinity();
    if (!a.exact()) q.carry(term<"running_error.quotient_left">(factor), a);
    if (!b.exact()) q.carry(term<"running_error.quotient_right">(std::fabs(q.value) * factor), b);
    return q.within(arithmetic_in_force.divide_ulp, Share::steps);
  }
  // Chains are written with +=, -= and fma: their roundings are booked as those of sums.
  Running& operator+=(const Running& b) { return *this = added(*this, b, 1, Share::sums); }
  Running& operator-=(const Running& b) { return *this = added(*this, b, -1, Share::sums); }
  Running& operator*=(const Running& b) { return *this = *this * b; }
  Running& operator/=(const Running& b) { return *this = *this / b; }
  friend Running fma(const Running& a, const Running& b, const Running& c) {
    Running sum = multiplied(a, b);
    // Rounded twice: a bound for one rounding, too (theory.md C3).
    if (!arithmetic_in_force.fuses) return added(sum.rounded(Share::sums), c, 1, Share::sums);
    const double product = sum.most();
    // Of exact operands the product is exact in FP64; where they are not, worst() covers it.
    sum.err_surely(lost(sum.value, c.value, sum.value + c.value), Share::sums);
    sum.value = std::fma(a.value, b.value, c.value);
    sum.carry(term<"running_error.fma_sum">(1), c);
    return product <= c.most() ? sum.rounded(Share::sums, product) : sum.rounded(Share::sums);
  }
  friend Running sqrt(const Running& a) {
    Running root = of(std::sqrt(a.value));
    const double e = a.worst();
    if (e != 0) {
      const double slope = 1 / (root.value + std::sqrt(std::max(a.value - e, 0.0)));
      root.carry(term<"running_error.sqrt">(std::min(slope, 1 / std::sqrt(e)) * (1 + 0x1p-40)), a);
    }
    return root.within(arithmetic_in_force.sqrt_ulp, Share::steps);
  }
  friend bool operator<(const Running& a, const Running& b) { return a.value < b.value; }
};

// So many ulp of a library function whose exact result is x.
template <class Books>
Running<Books> function_result(Running<Books> x, double ulps) {
  const double m = x.most();
  x.err(m <= 0x1.fffffep127
            ? term<"running_error.function">(2 * ulps * Running<Books>::half_spacing_fp32(m))
            : std::numeric_limits<double>::infinity(),
        Share::functions);
  x.may_flush(Share::functions);
  return x;
}

template <class Books>
Running<Books> exp(const Running<Books>& a) {
  Running<Books> y = Running<Books>::of(std::exp(a.value));
  const double e = a.worst();
  // Far below zero y and the first form are 0 and infinite: there without the 1, which is nothing.
  const double slope = e < 300 ? y.value * std::expm1(e) / e : std::exp(a.value + e) / e;
  if (e != 0) y.carry(term<"running_error.exp">(slope * (1 + 0x1p-40)), a);
  return function_result(y, arithmetic_in_force.exp_errors(a.most()) / 2);
}

template <class Books>
Running<Books> log(const Running<Books>& a) {
  Running<Books> y = Running<Books>::of(std::log(a.value));
  const double e = a.worst();
  const double relative = e / a.value;
  if (e != 0) {
    const double slope =
        relative < 1 ? -std::log1p(-relative) / e : std::numeric_limits<double>::infinity();
    y.carry(term<"running_error.log">(slope * (1 + 0x1p-40)), a);
  }
  return function_result(y, arithmetic_in_force.log_ulp);
}

// The slope 2 exp(-a^2) / sqrt(pi) is largest at the end of the interval that is nearest to zero.
template <class Books>
Running<Books> erf(const Running<Books>& a) {
  Running<Books> y = Running<Books>::of(std::erf(a.value));
  const double nearest = std::max(std::fabs(a.value) - a.worst(), 0.0);
  const double slope = 1.1283791670955126 * std::exp(-nearest * nearest) * (1 + 0x1p-40);
  if (a.worst() != 0) y.carry(term<"running_error.erf">(slope), a);
  y.err(arithmetic_in_force.erf_absolute, Share::functions);
  return function_result(y, arithmetic_in_force.erf_ulp);
}

// The slope 1 / cosh(a)^2 is largest at the end of the interval that is nearest to zero.
template <class Books>
Running<Books> tanh(const Running<Books>& a) {
  Running<Books> y = Running<Books>::of(std::tanh(a.value));
  const double nearest = std::max(std::fabs(a.value) - a.worst(), 0.0);
  const double up = std::cosh(nearest);  // may be infinite: a slope of zero
  if (a.worst() != 0) y.carry(term<"running_error.tanh">((1 + 0x1p-40) / (up * up)), a);
  return function_result(y, arithmetic_in_force.tanh_ulp);
}

// 1 / (1 + exp(-z)): in one lemma, because exp(-z) may overflow in FP32 where the result is a mere
// underflow. An ulp of exp is a relative 2u, as if z were off by that much more; log sigma'
// changes by at most as much as z, so |ds| <= s (1-s) (e^Z - 1); the addition and the division
// round.
template <class Books>
Running<Books> sigmoid(const Running<Books>& z) {
  constexpr double u = 0x1.01p-24;  // enlarged: covers the squares of u
  Running<Books> s = Running<Books>::of(1 / (1 + std::exp(-z.value)));
  const double of_exp = u * arithmetic_in_force.exp_errors(std::min(z.most(), 128.0));
  const double off = z.worst() + of_exp;
  const double here = s.value / (1 + std::exp(z.value)) * std::expm1(off) / off;
  const double anywhere = std::exp(-std::max(std::fabs(z.value) - off, 0.0));
  const double slope = std::fmin(here, anywhere);  // where z is vast, the first may be 0 inf
  s.carry(term<"running_error.sigmoid">(slope * (1 + 0x1p-40)), z);
  s.err(term<"running_error.sigmoid_exp">(slope * of_exp), Share::functions);
  s.err(term<"running_error.sigmoid_sum">(s.value * u), Share::steps);
  if (z.value - z.worst() < -87) {  // FP32 may hold zero
    s.err(term<"running_error.sigmoid_underflow">(s.value), Share::functions);
  }
  return s.within(arithmetic_in_force.divide_ulp, Share::steps);
}

template <class Books>
Running<Books> min(const Running<Books>& a, const Running<Books>& b) {
  if (!std::isfinite(a.worst())) return a;
  if (!std::isfinite(b.worst())) return b;
  const Running<Books>& smaller = b.value < a.value ? b : a;
  const Running<Books>& other = b.value < a.value ? a : b;
  if (smaller.value + smaller.worst() < other.value - other.worst()) return smaller;
  Running<Books> either = smaller.worst() < other.worst() ? other : smaller;
  either.value = smaller.value;
  return either;
}

using RunningError = Running<AllCauses>;
using WorstError = Running<WorstCase>;

// with_named_error(): a number that the code goes on to use more than once. with_unnamed_errors():
// one that meets no other of the same origin any more. Only RunningError and ErrorMoments take
// note.
inline float with_named_error(float x) { return x; }
inline double with_named_error(double x) { return x; }
inline float with_unnamed_errors(float x) { return x; }
inline double with_unnamed_errors(double x) { return x; }
template <class Books>
Running<Books> with_unnamed_errors(const Running<Books>& x) {
  return x;
}
inline WorstError with_named_error(const WorstError& x) { return x; }
inline RunningError with_named_error(RunningError x) {
  x.common += term<"running_error.shared">(std::sqrt(x.energy));
  x.energy = 0;
  return x;
}

}  // namespace plumb::bounds
