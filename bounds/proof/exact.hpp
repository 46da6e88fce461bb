// bounds/proof/exact.hpp: the truth, from MPFR. The only window.
//
// Sums and products are computed exactly or with 300 bits, functions with 300 bits, and the result
// is rounded once: correctly rounded unless the truth lies within 2^-240 of a midpoint.
// A distance is |computed - truth|, rounded up.
// COSTS    microseconds per element; for tests and certificates.
// TESTED   tests/bounds/proof/exact_test.cpp (identities, and cases known in closed form)
#pragma once

#include <span>
#include <vector>

#include "bounds/sees.hpp"

namespace plumb::bounds {

// sum_i a_i b_i; bias is added. Throws std::invalid_argument if the lengths differ.
double exact_dot(std::span<const double> a, std::span<const double> b, double bias = 0);
double distance_from_dot(double computed, std::span<const double> a, std::span<const double> b,
                         double bias = 0);

double exact_exp(double x);
double exact_log(double x);
double exact_sigmoid(double x);
double exact_cos(double x);
double exact_sin(double x);

// exp(x_i) / sum_j exp(x_j), and log sum_j exp(x_j).
std::vector<double> exact_softmax(std::span<const double> x);
double exact_log_sum_exp(std::span<const double> x);

// x w / sqrt(mean of x^2 + eps);  (x - mean) w / sqrt(variance + eps) + b.
std::vector<double> exact_rmsnorm(std::span<const double> x, std::span<const double> w, double eps);
std::vector<double> exact_layernorm(std::span<const double> x, std::span<const double> w,
                                    std::span<const double> b, double eps);

// x rounded to `precision` bits, nearest even, exponents from emin on, with subnormals; no largest.
double exact_rounding(double x, int precision, int emin);

}  // namespace plumb::bounds
