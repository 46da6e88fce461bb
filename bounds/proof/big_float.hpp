// bounds/proof/big_float.hpp: a number of 300 bits, so that an operation can be evaluated as meant.
//
// An operation written over a number type is, over BigFloat, the judge of its own FP64 value and of
// its bounds: each step is MPFR's, rounded to nearest in 300 bits, exponents without limit.
// COSTS    a heap allocation and some tenths of a microsecond a step; for tests and certificates.
// NOT FOR  sums that cancel more than 200 bits: bounds/proof/exact.hpp adds without rounding.
// TESTED   tests/bounds/proof/big_float_test.cpp
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>

#include "bounds/sees.hpp"

namespace plumb::bounds {

class BigFloat {
 public:
  BigFloat() : BigFloat(0.0) {}
  BigFloat(double x);
  template <class Number, class = std::enable_if_t<std::is_integral_v<Number>>>
  BigFloat(Number x) : BigFloat(static_cast<double>(x)) {}
  BigFloat(const BigFloat& other);
  BigFloat(BigFloat&& other) noexcept;
  BigFloat& operator=(const BigFloat& other);
  BigFloat& operator=(BigFloat&& other) noexcept;
  ~BigFloat();

  // Rounds to nearest.
  explicit operator double() const;
  explicit operator std::size_t() const { return static_cast<std::size_t>(double(*this)); }
  // |x - this|, rounded up.
  double distance_from(double x) const;

  BigFloat& operator+=(const BigFloat& b);
  BigFloat& operator-=(const BigFloat& b);
  BigFloat& operator*=(const BigFloat& b);
  BigFloat& operator/=(const BigFloat& b);
  friend BigFloat operator+(BigFloat a, const BigFloat& b) { return a += b; }
  friend BigFloat operator-(BigFloat a, const BigFloat& b) { return a -= b; }
  friend BigFloat operator*(BigFloat a, const BigFloat& b) { return a *= b; }
  friend BigFloat operator/(BigFloat a, const BigFloat& b) { return a /= b; }
  friend BigFloat operator-(const BigFloat& a) { return BigFloat(0) - a; }
  friend bool operator<(const BigFloat& a, const BigFloat& b) { return a.less(b); }
  friend BigFloat fma(const BigFloat& a, const BigFloat& b, const BigFloat& c) { return a * b + c; }
  friend BigFloat exp(const BigFloat& a) { return a.function(0); }
  friend BigFloat log(const BigFloat& a) { return a.function(1); }
  friend BigFloat erf(const BigFloat& a) { return a.function(3); }
  friend BigFloat tanh(const BigFloat& a) { return a.function(4); }
  friend BigFloat sqrt(const BigFloat& a) { return a.function(2); }
  friend BigFloat min(const BigFloat& a, const BigFloat& b) { return b < a ? b : a; }
  friend BigFloat with_named_error(const BigFloat& a) { return a; }
  friend BigFloat with_unnamed_errors(const BigFloat& a) { return a; }

 private:
  bool less(const BigFloat& b) const;
  BigFloat function(int which) const;

  struct Number;  // MPFR's
  std::unique_ptr<Number> number_;
};

}  // namespace plumb::bounds
