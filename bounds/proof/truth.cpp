#include "bounds/proof/truth.hpp"

#include <boost/multiprecision/mpfr.hpp>

namespace plumb::bounds {
namespace {

using Fine = boost::multiprecision::number<
    boost::multiprecision::mpfr_float_backend<91, boost::multiprecision::allocate_stack>,
    boost::multiprecision::et_off>;

}  // namespace

struct Truth::Number {
  Fine value;
};

Truth::Truth(double x) : number_(new Number{Fine(x)}) {}
Truth::Truth(const Truth& other) : number_(new Number(*other.number_)) {}
Truth::Truth(Truth&& other) noexcept = default;
Truth& Truth::operator=(const Truth& other) {
  if (!number_) number_.reset(new Number);
  number_->value = other.number_->value;
  return *this;
}
Truth& Truth::operator=(Truth&& other) noexcept = default;
Truth::~Truth() = default;

Truth::operator double() const { return mpfr_get_d(number_->value.backend().data(), MPFR_RNDN); }

double Truth::distance_from(double x) const {
  const Fine off = abs(Fine(number_->value - Fine(x)));
  return mpfr_get_d(off.backend().data(), MPFR_RNDU);
}

Truth& Truth::operator+=(const Truth& b) {
  number_->value += b.number_->value;
  return *this;
}
Truth& Truth::operator-=(const Truth& b) {
  number_->value -= b.number_->value;
  return *this;
}
Truth& Truth::operator*=(const Truth& b) {
  number_->value *= b.number_->value;
  return *this;
}
Truth& Truth::operator/=(const Truth& b) {
  number_->value /= b.number_->value;
  return *this;
}

bool Truth::less(const Truth& b) const { return number_->value < b.number_->value; }

Truth Truth::function(int which) const {
  Truth y;
  const Fine& x = number_->value;
  y.number_->value = which == 0   ? Fine(exp(x))
                     : which == 1 ? Fine(log(x))
                     : which == 2 ? Fine(sqrt(x))
                                  : Fine(erf(x));
  return y;
}

}  // namespace plumb::bounds
