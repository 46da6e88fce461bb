// trace/levels.hpp: from a statistic to a probability, from counts to an interval.
//
// Tails are upper tails, computed without 1 - x, so that levels of 1e-12 keep their digits.
//
// VALID    degrees > 0, infinity included (then normal); probabilities in (0, 1); x > 0 for the
//          gamma family. Elsewhere std::domain_error is thrown.
// TESTED   tests/trace/levels_test.cpp
// SOURCES  bounds/SOURCES.md [CP34] [Smy04]
#pragma once

#include <cstddef>

#include "trace/sees.hpp"

namespace plumb::trace {

// P(T > t) of Student's t; P(N > z) of the standard normal.
double student_tail(double t, double degrees);
double normal_tail(double z);
// The t (or z) whose upper tail is p.
double student_quantile(double upper_tail_p, double degrees);
double normal_quantile(double upper_tail_p);

// The first two derivatives of log Gamma. They are the mean and the variance of the logarithm of a
// chi-square variable:
//   E log(chi2_k / k) = digamma(k/2) - log(k/2),   Var = trigamma(k/2)
double digamma(double x);
double trigamma(double x);
// The x with trigamma(x) = y, by Newton's iteration on 1 / trigamma [Smy04].
double inverse_trigamma(double y);

struct Interval {
  double low, high;
};
// Clopper-Pearson's interval: covers the rate behind `hits` of `n` with probability >= confidence
// [CP34].
Interval binomial_interval(std::size_t hits, std::size_t n, double confidence);
// P(X >= hits) of a binomial count.
double binomial_tail(std::size_t hits, std::size_t n, double rate);

}  // namespace plumb::trace
