#include "trace/levels.hpp"

#include <cmath>
#include <limits>
#include <stdexcept>

#include <boost/math/distributions/beta.hpp>
#include <boost/math/distributions/binomial.hpp>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <boost/math/special_functions/digamma.hpp>
#include <boost/math/special_functions/trigamma.hpp>

namespace plumb::trace {
namespace {

namespace bm = boost::math;

// No promotion to long double: the same digits on every machine, and fast enough for thousands.
using Policy = bm::policies::policy<bm::policies::promote_double<false>>;
using Normal = bm::normal_distribution<double, Policy>;
using Student = bm::students_t_distribution<double, Policy>;
using Beta = bm::beta_distribution<double, Policy>;

void need(bool held, const char* what) {
  if (!held) throw std::domain_error(what);
}

}  // namespace

double student_tail(double t, double degrees) {
  need(degrees > 0 && !std::isnan(t), "student_tail needs degrees > 0 and a number t");
  if (std::isinf(t)) return t > 0 ? 0 : 1;
  if (std::isinf(degrees)) return normal_tail(t);
  return bm::cdf(bm::complement(Student(degrees), t));
}

double normal_tail(double z) {
  need(!std::isnan(z), "normal_tail needs a number");
  return std::erfc(z / std::sqrt(2.0)) / 2;
}

double student_quantile(double upper_tail_p, double degrees) {
  need(degrees > 0, "student_quantile needs degrees > 0");
  need(upper_tail_p > 0 && upper_tail_p < 1, "student_quantile needs 0 < p < 1");
  if (std::isinf(degrees)) return normal_quantile(upper_tail_p);
  return bm::quantile(bm::complement(Student(degrees), upper_tail_p));
}

double normal_quantile(double upper_tail_p) {
  need(upper_tail_p > 0 && upper_tail_p < 1, "normal_quantile needs 0 < p < 1");
  return bm::quantile(bm::complement(Normal(), upper_tail_p));
}

double digamma(double x) {
  need(x > 0, "digamma needs x > 0");
  return bm::digamma(x, Policy());
}

double trigamma(double x) {
  need(x > 0, "trigamma needs x > 0");
  return bm::trigamma(x, Policy());
}

double inverse_trigamma(double y) {
  need(y > 0 && !std::isinf(y), "inverse_trigamma needs a finite y > 0");
  // trigamma(x) lies between 1/x + 1/(2 x^2) and 1/x + 1/x^2; beyond these ends it is one of them
  // to all digits.
  if (y > 1e15) return 1 / std::sqrt(y);
  if (y < 1e-15) return 1 / y;
  // Newton on 1/trigamma, convex and nearly linear, from below: increases to the root [Smy04]. The
  // derivative is a difference quotient, good to 1e-7; that only slows the last steps.
  double x = 0.5 + 1 / y;
  for (int i = 0; i < 60; ++i) {
    const double value = trigamma(x);
    const double h = 1e-5 * x;
    const double slope = (trigamma(x + h) - trigamma(x - h)) / (2 * h);
    const double step = value * (1 - value / y) / slope;
    x += step;
    if (std::fabs(step) <= 4 * std::numeric_limits<double>::epsilon() * x) break;
  }
  return x;
}

Interval binomial_interval(std::size_t hits, std::size_t n, double confidence) {
  need(n > 0 && hits <= n, "binomial_interval needs 0 <= hits <= n, n > 0");
  need(confidence > 0 && confidence < 1, "binomial_interval needs 0 < confidence < 1");
  const double outside = (1 - confidence) / 2;
  const auto k = static_cast<double>(hits);
  const auto misses = static_cast<double>(n - hits);
  Interval interval{0, 1};
  if (hits > 0) interval.low = bm::quantile(Beta(k, misses + 1), outside);
  if (hits < n) interval.high = bm::quantile(bm::complement(Beta(k + 1, misses), outside));
  return interval;
}

double binomial_tail(std::size_t hits, std::size_t n, double rate) {
  need(n > 0 && hits <= n, "binomial_tail needs 0 <= hits <= n, n > 0");
  need(rate >= 0 && rate <= 1, "binomial_tail needs 0 <= rate <= 1");
  if (hits == 0) return 1;
  // P(X >= k) is the beta distribution function I_rate(k, n - k + 1).
  return bm::cdf(Beta(static_cast<double>(hits), static_cast<double>(n - hits) + 1), rate);
}

}  // namespace plumb::trace
