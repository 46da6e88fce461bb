// bounds/proof/error_moments.hpp: an FP64 number, and the mean and variance of FP32's error about
// it.
//
// An operation is written once, over a number type; over ErrorMoments it says how large its errors
// are likely to be, where RunningError says how large they can be. To first order the error of a
// result is
//
//   sum over the roundings before it of (how much the result moves with it) x (what it lost)
//
// so its bias is the same sum of biases and its variance one of squares. A number that is used more
// than once goes through with_named_error(): what it lost so far becomes one *source*, and whatever
// is made of it carries its signed sensitivity to that source. So what cancels cancels: in a
// gradient of a norm the error of the mean, for one. (To be called once a number: each call makes a
// source.)
//
//   LEMMAS   with a^ = a + bias the number that FP32 is expected to hold, and so for b, the error
//            of a result moves with the errors of its operands by
//     a + b      1, 1
//     a b        b^, a^ (a number times itself: 2 a^)
//     a / b      1 / b^, -q^ / b^                                     q^ = a^ / b^
//     sqrt a     1 / (2 root)
//     exp a      exp(a^)
//     log a      1 / a^
//     erf a      2 exp(-a^2) / sqrt(pi)                               at a^
//     tanh a     1 / cosh(a)^2                                        at a^
//     rounding   adds what can be lost: bounds/proof/grid.hpp, with h the spacing at |x^| and g a
//                power of two that FP32's number is a multiple of. Nothing where g >= h. An input,
//                and what is made of inputs without loss, is an odd multiple of its g.
//     vanishing  an addend to a number of FP32 that is a constant or below four spacings h of the
//                sum comes to whole spacings, the same each time (theory.md P8: stagnation): what
//                is lost is no chance but a bias. Only near the middle between two, by its own
//                deviation, it may come to either; a tie does, by the bits of the sum. The variance
//                is (1 - p)^2 h^2 / (1 + t^2), p the probability of the rarer and t the distance
//                from the middle in deviations: h^2 / 4 for a tie, and elsewhere enough for the
//                tails. A result below half of FP32's least number vanishes likewise.
//     constant   a number that the code alone determines (attributes, angles) FP32 holds as one
//                known number: what it loses is a bias. So are sums of squares of short numbers:
//                k^2 of odd k ends in 001, and the roundings at one exponent go the same way.
// ASSUMES  what can be lost is equally likely, and independent from rounding to rounding. Data that
//          repeat break that; the caller has to ask.
//          exp and log round once: errors next to that rounding are nothing. error_moments_test.cpp
//          measures it, also of this machine's log, which promises less (an ulp, as RunningError
//          takes it).
//          erf's own errors add a twentieth to the square.
//          Errors are small next to what they act on.
// REFUSES  nothing: beyond FP32's range and where a divisor may be zero the variance is infinite or
//          NaN.
// SOURCES  theory.md P5, P7, P8
// TESTED   tests/bounds/proof/error_moments_test.cpp, tests/bounds/operations/moments_test.cpp
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "bounds/proof/error_sources.hpp"
#include "bounds/proof/grid.hpp"
#include "bounds/proof/term.hpp"
#include "bounds/sees.hpp"
#include "number/format.hpp"

namespace plumb::bounds {

struct ErrorMoments : ErrorSources {
  static constexpr double infinity = std::numeric_limits<double>::infinity();

  double value = 0;
  double bias = 0;
  double grid = infinity;  // a power of two that FP32's number is a multiple of; 0: none is known
  bool known = true;       // FP32 holds value + bias, and grid is the last bit of that
  // Below a spacing its value is known, not drawn by chance: numbers in the code, and squares of
  // short numbers.
  bool constant = true;

  ErrorMoments() = default;
  // A number written in the code.
  template <class Number, class = std::enable_if_t<std::is_arithmetic_v<Number>>>
  ErrorMoments(Number x) : value(static_cast<double>(x)) {
    settle();
  }
  // An element of an input: one draw of many.
  static ErrorMoments input(double x) {
    ErrorMoments m(x);
    m.constant = false;
    return m;
  }
  explicit operator std::size_t() const { return static_cast<std::size_t>(value); }

  double held() const { return value + bias; }  // what FP32 is expected to hold

  // Of: a result that FP32 does not hold yet; a number that it does, with known bias and variance.
  static ErrorMoments unrounded(double value) {
    ErrorMoments m;
    m.value = value;
    m.grid = 0;
    m.known = m.constant = false;
    return m;
  }
  static ErrorMoments of(double value, double bias, double variance) {
    ErrorMoments m = unrounded(value);
    m.bias = bias;
    m.own = variance;
    m.known = variance == 0;
    m.grid = m.known ? grid_of(m.held()) : spacing_at(std::fabs(m.held()));
    return m;
  }

  // The rounding at the end of a step.
  ErrorMoments& rounded() {
    return constant ? settle() : rounded(0x1p-23, 0x1p-149, 0x1.fffffep127);
  }
  ErrorMoments& rounded(const Format& to) {
    return rounded(2 * to.unit_roundoff(), to.spacing_at_zero(), to.largest());
  }

  // Beyond `largest` the number becomes `largest`.
  ErrorMoments& saturated(double largest) {
    if (std::fabs(held()) <= largest) return *this;
    bias = std::copysign(largest, held()) - value;
    clear();
    grid = grid_of(largest);
    known = true;
    return *this;
  }
  // Goes to either neighbour, the upper with the probability p of its place between them:
  // p (1 - p) h^2, or h^2 / 6 where the place is not known. No bias.
  ErrorMoments& rounded_stochastically(const Format& to) {
    const double most = std::fabs(held());
    if (most == 0) return *this;
    const double h = spacing_at(most, 2 * to.unit_roundoff(), to.spacing_at_zero());
    if (!(most <= to.largest())) own = infinity;
    if (h <= grid) return *this;
    const double p = held() / h - std::floor(held() / h);
    own += term<"moment.stochastic">((known ? p * (1 - p) : 1.0 / 6) * h * h);
    grid = h;
    known = constant = false;
    return *this;
  }

  friend ErrorMoments operator-(ErrorMoments a) {
    a.value = -a.value;
    a.bias = -a.bias;
    a.change_signs();
    return a;
  }
  friend ErrorMoments operator+(ErrorMoments a, const ErrorMoments& b) {
    return added(std::move(a), b, 1, true);
  }
  friend ErrorMoments operator-(ErrorMoments a, const ErrorMoments& b) {
    return added(std::move(a), b, -1, true);
  }
  friend ErrorMoments operator*(const ErrorMoments& a, const ErrorMoments& b) {
    return multiplied(a, b).rounded();
  }
  friend ErrorMoments operator/(const ErrorMoments& a, const ErrorMoments& b) {
    const double divisor = b.held(), quotient = a.held() / divisor;
    ErrorMoments q = combined(a, 1 / divisor, b, term<"moment.divisor">(-quotient / divisor));
    q.value = a.value / b.value;
    q.bias = quotient - q.value;
    q.constant = a.constant && b.constant;
    // Where the divisor may be zero nothing is of first order.
    if (!(64 * b.variance() < divisor * divisor)) q.own = infinity;
    q.known = a.known && b.known && std::fma(quotient, divisor, -a.held()) == 0;
    if (q.known) q.grid = grid_of(quotient);
    if (b.known && grid_of(divisor) == std::fabs(divisor)) q.grid = a.grid / std::fabs(divisor);
    return q.rounded();
  }
  // In place: a chain over rows has a source for each.
  ErrorMoments& operator+=(const ErrorMoments& b) {
    return *this = &b == this ? *this + b : added(std::move(*this), b, 1, true);
  }
  ErrorMoments& operator-=(const ErrorMoments& b) {
    return *this = &b == this ? *this - b : added(std::move(*this), b, -1, true);
  }
  ErrorMoments& operator*=(const ErrorMoments& b) { return *this = *this * b; }
  ErrorMoments& operator/=(const ErrorMoments& b) { return *this = *this / b; }
  friend ErrorMoments fma(const ErrorMoments& a, const ErrorMoments& b, ErrorMoments c) {
    return added(std::move(c), multiplied(a, b), 1, false);
  }
  friend ErrorMoments sqrt(const ErrorMoments& a) {
    const double root = std::sqrt(a.held());
    ErrorMoments y = of_function(a, std::sqrt(a.value), root, root > 0 ? 1 / (2 * root) : 0);
    y.constant = a.constant;
    y.known = a.known && std::fma(root, root, -a.held()) == 0;
    if (y.known) y.grid = grid_of(root);
    return y.rounded();
  }
  friend ErrorMoments exp(const ErrorMoments& a) {
    const double y = std::exp(a.held());
    return of_function(a, std::exp(a.value), y, y).rounded();
  }
  friend ErrorMoments log(const ErrorMoments& a) {
    return of_function(a, std::log(a.value), std::log(a.held()), 1 / a.held()).rounded();
  }
  friend ErrorMoments tanh(const ErrorMoments& a) {
    const double up = std::cosh(a.held());
    return of_function(a, std::tanh(a.value), std::tanh(a.held()), 1 / (up * up)).rounded();
  }
  friend ErrorMoments erf(const ErrorMoments& a) {
    const double slope = 1.1283791670955126 * std::exp(-a.held() * a.held());  // 2 / sqrt(pi)
    ErrorMoments y = of_function(a, std::erf(a.value), std::erf(a.held()), slope);
    if (a.known && std::fabs(a.held()) > 6) y.settle();  // FP32 holds 1 there, or -1
    return y.rounded();
  }
  // 1 / (1 + exp(-z)). Beyond FP32's range exp(-z) is infinite there, and the result zero.
  friend ErrorMoments sigmoid(const ErrorMoments& z) {
    constexpr double farthest = 88.722839;  // the logarithm of FP32's largest number
    if (z.held() < -farthest) {
      ErrorMoments s;
      s.value = 1 / (1 + std::exp(-z.value));
      return s.become_zero();
    }
    return ErrorMoments(1) / (ErrorMoments(1) + exp(-z));
  }
  friend ErrorMoments min(const ErrorMoments& a, const ErrorMoments& b) {
    return b.held() < a.held() ? b : a;
  }
  friend bool operator<(const ErrorMoments& a, const ErrorMoments& b) { return a.value < b.value; }

  // Forgets which sources the errors came from: for a number that meets nothing else that depends
  // on them.
  friend ErrorMoments with_unnamed_errors(ErrorMoments a) {
    a.forget();
    return a;
  }
  // Makes one source of what the number has lost so far.
  friend ErrorMoments with_named_error(ErrorMoments a) {
    a.name();
    return a;
  }

 private:
  // FP32 holds the number nearest to value + bias, which is known.
  ErrorMoments& settle() {
    const double x = static_cast<double>(static_cast<float>(held()));
    bias = x - value;
    own = std::isfinite(x) ? 0 : infinity;
    grid = grid_of(x);
    known = true;
    return *this;
  }
  ErrorMoments& rounded(double relative, double at_zero, double largest) {
    const double most = std::fabs(held());
    if (most == 0) return *this;
    if (!(most <= largest)) {
      own = infinity;
      return *this;
    }
    if (2 * most < at_zero) return become_zero();
    const double h = spacing_at(most, relative, at_zero);
    if (h <= grid) return *this;
    own += term<"moment.rounding">(variance_of_nearest(h, grid, known));
    grid = h;
    known = constant = false;
    return *this;
  }
  ErrorMoments& become_zero() {
    bias = term<"moment.underflow">(-value);
    clear();
    grid = infinity;
    known = true;
    return *this;
  }

  // The errors of factor_a a + factor_b b; the caller sets the value.
  static ErrorMoments combined(const ErrorMoments& a, double factor_a, const ErrorMoments& b,
                               double factor_b) {
    ErrorMoments m;
    static_cast<ErrorSources&>(m) = ErrorSources::combined(a, factor_a, b, factor_b);
    m.grid = 0;
    m.known = m.constant = false;
    return m;
  }

  static ErrorMoments of_function(const ErrorMoments& a, double value, double held, double slope) {
    ErrorMoments y = combined(a, slope, ErrorMoments(), 0);
    y.value = value;
    y.bias = held - value;
    // Functions whose argument and result FP32 holds exactly: exp 0, log 1.
    y.known = a.known && (a.held() == 0 || a.held() == 1) && held == std::trunc(held);
    if (y.known) y.grid = grid_of(held);
    return y;
  }

  // Has it at most 18 bits, so few that the last three of its square (001 behind an odd number) are
  // not negligible in what FP32 drops of it? (Of more bits they are a 2^-12 of a spacing.)
  bool is_short() const { return known && std::fabs(held()) < 0x1p18 * grid; }

  // The product, which FP32 does not hold yet.
  static ErrorMoments multiplied(const ErrorMoments& a, const ErrorMoments& b) {
    const double x = a.held(), y = b.held();
    ErrorMoments p = combined(a, y, b, x);
    p.value = a.value * b.value;
    p.bias = x * y - p.value;
    p.known = a.known && b.known;  // 24 bits by 24: exact in FP64
    p.constant = (a.constant && b.constant) || (&a == &b && a.is_short());
    p.grid = a.grid * b.grid;
    if ((a.known && x == 0) || (b.known && y == 0)) {
      p.known = true;
      p.grid = infinity;
    }
    return p;
  }

  // a + sign b, rounded; b may be a product, which FP32 does not hold.
  static ErrorMoments added(ErrorMoments a, const ErrorMoments& b, double sign, bool b_is_held) {
    const double x = a.held(), y = sign * b.held(), sum = x + y;
    const double value = a.value + sign * b.value;
    const bool constant = a.constant && b.constant;
    const bool a_smaller = std::fabs(x) < std::fabs(y);
    const double h = sum != 0 ? spacing_at(std::fabs(sum)) : 0;
    if (!constant && (b_is_held || !a_smaller)) {
      const ErrorMoments& smaller = a_smaller ? a : b;
      const ErrorMoments& larger = a_smaller ? b : a;
      if (smaller.vanishes_below(h) && larger.grid >= h) {
        const double deviation = std::sqrt(smaller.variance());
        ErrorMoments kept = a_smaller ? (sign < 0 ? -b : b) : std::move(a);
        kept.take_in_spacings(a_smaller ? x : y, deviation, h, value);
        return kept;
      }
    }
    const double back = sum - x;
    const bool lossless = (x - (sum - back)) + (y - back) == 0;  // TwoSum [Hig02 4.3]
    const bool exact = a.known && b.known && lossless;
    // Is the sum an odd multiple of its grid, because one operand is?
    const bool odd = exact || (a.grid < b.grid ? a.known : b.known && a.grid != b.grid);
    a.grid = exact ? grid_of(sum) : std::min(a.grid, b.grid);
    a.append(b, sign);
    a.value = value;
    a.bias = sum - value;
    a.known = odd;
    a.constant = constant;
    a.rounded();
    a.known = a.known && (exact || constant);
    return a;
  }
  // Does it lose the same, or nearly so, each time it is added where the spacing is h?
  bool vanishes_below(double h) const {
    const double size = std::fabs(held());
    return size > 0 && (size < 4 * h || constant) && h > grid && 64 * variance() < h * h;
  }
  // Adds the whole spacings that FP32 takes for an addend x of that deviation: the nearest ones,
  // one more or less where x is near the middle. An error of a spacing that befalls only what is t
  // deviations away has to count as more than t deviations: p (1 - p) h^2 would promise a millionth
  // where p is a thousandth. (1 - p)^2 h^2 / (1 + t^2) is the same for a tie, and for t > 1.1 both
  // normal tails beyond sqrt(1 + t^2) hold more than p.
  void take_in_spacings(double x, double deviation, double h, double sum) {
    const double floor = h * std::floor(x / h), beyond = x - floor - h / 2;
    double up = beyond > 0 ? 1 : beyond < 0 ? 0 : 0.5, t = 0;
    if (std::fabs(beyond) < 6 * deviation) {
      t = beyond / term<"moment.edge">(deviation);
      up = std::erfc(-t / std::sqrt(2)) / 2;
    }
    const double taken = floor + up * h;
    bias = held() + x - sum + term<"moment.vanishing">(taken - x);
    value = sum;
    const double likely = std::max(up, 1 - up);
    own += term<"moment.middle">(likely < 1 ? likely * likely * h * h / (1 + t * t) : 0);
    constant = false;
    if (taken == 0) return;
    known = false;
    grid = h;
  }
};

}  // namespace plumb::bounds
