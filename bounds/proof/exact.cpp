#include "bounds/proof/exact.hpp"

#include <algorithm>
#include <stdexcept>

#include <boost/multiprecision/mpfr.hpp>

namespace plumb::bounds {
namespace {

// Doubles span 2100 binades: 4500 bits hold any sum of 2^200 products of two of them exactly.
using Whole = boost::multiprecision::number<
    boost::multiprecision::mpfr_float_backend<1360, boost::multiprecision::allocate_stack>,
    boost::multiprecision::et_off>;
// 300 bits.
using Fine = boost::multiprecision::number<
    boost::multiprecision::mpfr_float_backend<91, boost::multiprecision::allocate_stack>,
    boost::multiprecision::et_off>;

template <class Number>
double nearest(const Number& x) {
  return mpfr_get_d(x.backend().data(), MPFR_RNDN);
}

Whole dot(std::span<const double> a, std::span<const double> b, double bias) {
  if (a.size() != b.size()) throw std::invalid_argument("exact_dot: the lengths differ");
  Whole sum = bias;
  for (std::size_t i = 0; i < a.size(); ++i) sum += Whole(a[i]) * Whole(b[i]);
  return sum;
}

Fine log_sum_exp(std::span<const double> x) {
  const Fine largest = *std::max_element(x.begin(), x.end());
  Fine sum = 0;
  for (const double v : x) sum += exp(Fine(v) - largest);
  return largest + log(sum);
}

}  // namespace

double exact_dot(std::span<const double> a, std::span<const double> b, double bias) {
  return nearest(dot(a, b, bias));
}

double distance_from_dot(double computed, std::span<const double> a, std::span<const double> b,
                         double bias) {
  const Whole off = abs(Whole(computed) - dot(a, b, bias));
  return mpfr_get_d(off.backend().data(), MPFR_RNDU);
}

double exact_exp(double x) { return nearest(exp(Fine(x))); }
double exact_log(double x) { return nearest(log(Fine(x))); }
double exact_sigmoid(double x) { return nearest(Fine(1 / (1 + exp(-Fine(x))))); }
double exact_cos(double x) { return nearest(cos(Fine(x))); }
double exact_sin(double x) { return nearest(sin(Fine(x))); }

std::vector<double> exact_softmax(std::span<const double> x) {
  const Fine largest = *std::max_element(x.begin(), x.end());
  std::vector<Fine> exponentials;
  exponentials.reserve(x.size());
  Fine sum = 0;
  for (const double v : x) {
    exponentials.push_back(exp(Fine(v) - largest));
    sum += exponentials.back();
  }
  std::vector<double> p;
  for (const Fine& e : exponentials) p.push_back(nearest(Fine(e / sum)));
  return p;
}

double exact_log_sum_exp(std::span<const double> x) { return nearest(log_sum_exp(x)); }

std::vector<double> exact_rmsnorm(std::span<const double> x, std::span<const double> w,
                                  double eps) {
  Fine squares = 0;
  for (const double v : x) squares += Fine(v) * v;
  const Fine root = sqrt(squares / x.size() + eps);
  std::vector<double> y;
  for (std::size_t i = 0; i < x.size(); ++i) y.push_back(nearest(Fine(Fine(x[i]) * w[i] / root)));
  return y;
}

std::vector<double> exact_layernorm(std::span<const double> x, std::span<const double> w,
                                    std::span<const double> b, double eps) {
  Fine mean = 0;
  for (const double v : x) mean += v;
  mean /= x.size();
  Fine squares = 0;
  for (const double v : x) {
    const Fine off = v - mean;
    squares += off * off;
  }
  const Fine inverse = 1 / sqrt(squares / x.size() + eps);
  std::vector<double> y;
  for (std::size_t i = 0; i < x.size(); ++i) {
    y.push_back(nearest(Fine((x[i] - mean) * inverse * w[i] + b[i])));
  }
  return y;
}

double exact_rounding(double x, int precision, int emin) {
  // MPFR's own subnormals: significand 0.1f, so its exponents are one above ours.
  const auto low = mpfr_get_emin();
  const auto high = mpfr_get_emax();
  mpfr_t y;
  mpfr_init2(y, precision);
  mpfr_set_emin(emin + 1 - precision + 1);
  mpfr_set_emax(2000);
  const int below = mpfr_set_d(y, x, MPFR_RNDN);
  mpfr_subnormalize(y, below, MPFR_RNDN);
  const double rounded = mpfr_get_d(y, MPFR_RNDN);
  mpfr_clear(y);
  mpfr_set_emin(low);
  mpfr_set_emax(high);
  return rounded;
}

}  // namespace plumb::bounds
