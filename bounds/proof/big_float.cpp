#include "bounds/proof/big_float.hpp"

#include <boost/multiprecision/mpfr.hpp>

namespace plumb::bounds {
namespace {

using Fine = boost::multiprecision::number<
    boost::multiprecision::mpfr_float_backend<91, boost::multiprecision::allocate_stack>,
    boost::multiprecision::et_off>;

}  // namespace

struct BigFloat::Number {
  Fine value;
};

BigFloat::BigFloat(double x) : number_(new Number{Fine(x)}) {}
BigFloat::BigFloat(const BigFloat& other) : number_(new Number(*other.number_)) {}
BigFloat::BigFloat(BigFloat&& other) noexcept = default;
BigFloat& BigFloat::operator=(const BigFloat& other) {
  if (!number_) number_.reset(new Number);
  number_->value = other.number_->value;
  return *this;
}
BigFloat& BigFloat::operator=(BigFloat&& other) noexcept = default;
BigFloat::~BigFloat() = default;

BigFloat::operator double() const { return mpfr_get_d(number_->value.backend().data(), MPFR_RNDN); }

double BigFloat::distance_from(double x) const {
  const Fine off = abs(Fine(number_->value - Fine(x)));
  return mpfr_get_d(off.backend().data(), MPFR_RNDU);
}

BigFloat& BigFloat::operator+=(const BigFloat& b) {
  number_->value += b.number_->value;
  return *this;
}
BigFloat& BigFloat::operator-=(const BigFloat& b) {
  number_->value -= b.number_->value;
  return *this;
}
BigFloat& BigFloat::operator*=(const BigFloat& b) {
  number_->value *= b.number_->value;
  return *this;
}
BigFloat& BigFloat::operator/=(const BigFloat& b) {
  number_->value /= b.number_->value;
  return *this;
}

bool BigFloat::less(const BigFloat& b) const { return number_->value < b.number_->value; }

BigFloat BigFloat::function(int which) const {
  BigFloat y;
  const Fine& x = number_->value;
  y.number_->value = which == 0   ? Fine(exp(x))
                     : which == 1 ? Fine(log(x))
                     : which == 2 ? Fine(sqrt(x))
                     : which == 3 ? Fine(erf(x))
                                  : Fine(tanh(x));
  return y;
}

}  // namespace plumb::bounds
