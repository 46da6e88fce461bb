// bounds/number/upper.hpp: a number that is never smaller than the truth.
//
// Every operation rounds away from zero, so whatever is built from Upper values by the operators
// below is again an upper bound. What would break that (subtracting, dividing by an Upper) does
// not compile. exact.hpp measures distances with it; the bounds themselves are doubles with slack.
//
// UNIT     that of the quantity bounded. An Upper may become infinity, never NaN.
// TESTED   tests/bounds/number/upper_test.cpp against MPFR
#pragma once

#include <cmath>
#include <compare>
#include <limits>
#include <stdexcept>

namespace plumb {

class Upper {
 public:
  Upper() = default;  // zero: bounds an exact quantity

  // The bound x itself, unrounded. Throws std::domain_error unless 0 <= x < infinity.
  static Upper of(double x) {
    if (!(x >= 0) || std::isinf(x)) throw std::domain_error("Upper::of needs a finite x >= 0");
    return Upper(x);
  }
  double value() const { return value_; }

  friend Upper operator+(Upper a, Upper b) {
    if (a.value_ == 0 || b.value_ == 0) return Upper(a.value_ + b.value_);
    return Upper(next(a.value_ + b.value_));
  }
  friend Upper operator*(Upper a, Upper b) {
    if (a.value_ == 0 || b.value_ == 0) return Upper();
    return Upper(next(a.value_ * b.value_));  // right also when the product underflows to zero
  }
  friend Upper sqrt(Upper a) { return a.value_ == 0 ? a : Upper(next(std::sqrt(a.value_))); }
  friend auto operator<=>(Upper, Upper) = default;

 private:
  explicit Upper(double x) : value_(x) {}
  static double next(double x) {
    return std::nextafter(x, std::numeric_limits<double>::infinity());
  }
  double value_ = 0;
};

}  // namespace plumb
