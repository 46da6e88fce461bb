// bounds/proof/truth.hpp: a number of 300 bits, so that an operation can be evaluated as meant.
//
// An operation written over a number type is, over Truth, the judge of its own FP64 value and of
// its bounds: each step is MPFR's, rounded to nearest in 300 bits, exponents without limit.
// COSTS    a heap allocation and some tenths of a microsecond a step; for tests and certificates.
// NOT FOR  sums that cancel more than 200 bits: bounds/proof/exact.hpp adds without rounding.
// TESTED   tests/bounds/proof/truth_test.cpp
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>

#include "bounds/sees.hpp"

namespace plumb::bounds {

class Truth {
 public:
  Truth() : Truth(0.0) {}
  Truth(double x);
  template <class Number, class = std::enable_if_t<std::is_integral_v<Number>>>
  Truth(Number x) : Truth(static_cast<double>(x)) {}
  Truth(const Truth& other);
  Truth(Truth&& other) noexcept;
  Truth& operator=(const Truth& other);
  Truth& operator=(Truth&& other) noexcept;
  ~Truth();

  // Rounds to nearest.
  explicit operator double() const;
  explicit operator std::size_t() const { return static_cast<std::size_t>(double(*this)); }
  // |x - this|, rounded up.
  double distance_from(double x) const;

  Truth& operator+=(const Truth& b);
  Truth& operator-=(const Truth& b);
  Truth& operator*=(const Truth& b);
  Truth& operator/=(const Truth& b);
  friend Truth operator+(Truth a, const Truth& b) { return a += b; }
  friend Truth operator-(Truth a, const Truth& b) { return a -= b; }
  friend Truth operator*(Truth a, const Truth& b) { return a *= b; }
  friend Truth operator/(Truth a, const Truth& b) { return a /= b; }
  friend Truth operator-(const Truth& a) { return Truth(0) - a; }
  friend bool operator<(const Truth& a, const Truth& b) { return a.less(b); }
  friend Truth fma(const Truth& a, const Truth& b, const Truth& c) { return a * b + c; }
  friend Truth exp(const Truth& a) { return a.function(0); }
  friend Truth log(const Truth& a) { return a.function(1); }
  friend Truth erf(const Truth& a) { return a.function(3); }
  friend Truth sqrt(const Truth& a) { return a.function(2); }
  friend Truth min(const Truth& a, const Truth& b) { return b < a ? b : a; }
  friend Truth shared(const Truth& a) { return a; }
  friend Truth apart(const Truth& a) { return a; }

 private:
  bool less(const Truth& b) const;
  Truth function(int which) const;

  struct Number;  // MPFR's
  std::unique_ptr<Number> number_;
};

}  // namespace plumb::bounds
