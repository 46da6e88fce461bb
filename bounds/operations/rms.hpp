// bounds/operations/rms.hpp: RMSNorm of rows, for whole rows and for heads: rmsnorm.cpp says how.
//
// Nothing here rounds to a format.
//
// TESTED   tests/bounds/operations/value_test.cpp
#pragma once

#include <cmath>

#include "bounds/operation.hpp"
#include "bounds/proof/running_error.hpp"
#include "bounds/sees.hpp"
#include "bounds/sum.hpp"

namespace plumb::bounds {

template <class T>
T inverse_rms(const T* x, std::size_t n, double eps, const SumsIn& in) {
  using std::sqrt;
  Sum<T> squares(in);
  for (std::size_t j = 0; j < n; ++j) squares.add_square(x[j]);
  return with_named_error(T(1) / sqrt(squares.total() / static_cast<T>(n) + static_cast<T>(eps)));
}

template <class T>
Matrix<T> rms_normalized(const Matrix<T>& x, const Matrix<T>& w, double eps, const SumsIn& in) {
  Matrix<T> y(x.rows, x.cols);
  for (std::size_t t = 0; t < x.rows; ++t) {
    const T r = inverse_rms(x.row(t), x.cols, eps, in);
    for (std::size_t j = 0; j < x.cols; ++j) y(t, j) = x(t, j) * r * w.values[j];
  }
  return y;
}

template <class T>
Matrix<T> rms_gradient(const Matrix<T>& x, const Matrix<T>& w, const Matrix<T>& dy, double eps,
                       const SumsIn& in) {
  Matrix<T> dx(x.rows, x.cols);
  for (std::size_t t = 0; t < x.rows; ++t) {
    const T r = inverse_rms(x.row(t), x.cols, eps, in);
    Sum<T> along(in);
    for (std::size_t j = 0; j < x.cols; ++j) along.add_product(dy(t, j) * w.values[j], x(t, j) * r);
    const T c = with_named_error(along.total() / static_cast<T>(x.cols));
    for (std::size_t j = 0; j < x.cols; ++j) {
      dx(t, j) = r * (dy(t, j) * w.values[j] - x(t, j) * r * c);
    }
  }
  return dx;
}

// The terms that each row adds to the gradient of the weight.                            // (T, D)
template <class T>
Matrix<T> rms_weight_terms(const Matrix<T>& x, Matrix<T> dy, double eps, const SumsIn& in) {
  for (std::size_t t = 0; t < x.rows; ++t) {
    const T r = inverse_rms(x.row(t), x.cols, eps, in);
    for (std::size_t j = 0; j < x.cols; ++j) dy(t, j) *= x(t, j) * r;
  }
  return dy;
}

}  // namespace plumb::bounds
