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

namespace plumb::bounds {

template <class T>
T inverse_rms(const T* x, std::size_t n, double eps) {
  using std::fma;
  using std::sqrt;
  T squares = 0;
  for (std::size_t j = 0; j < n; ++j) squares = fma(x[j], x[j], squares);
  return with_named_error(T(1) / sqrt(squares / static_cast<T>(n) + static_cast<T>(eps)));
}

template <class T>
Matrix<T> rms_normalized(const Matrix<T>& x, const Matrix<T>& w, double eps) {
  Matrix<T> y(x.rows, x.cols);
  for (std::size_t t = 0; t < x.rows; ++t) {
    const T r = inverse_rms(x.row(t), x.cols, eps);
    for (std::size_t j = 0; j < x.cols; ++j) y(t, j) = x(t, j) * r * w.values[j];
  }
  return y;
}

template <class T>
Matrix<T> rms_gradient(const Matrix<T>& x, const Matrix<T>& w, const Matrix<T>& dy, double eps) {
  using std::fma;
  Matrix<T> dx(x.rows, x.cols);
  for (std::size_t t = 0; t < x.rows; ++t) {
    const T r = inverse_rms(x.row(t), x.cols, eps);
    T c = 0;
    for (std::size_t j = 0; j < x.cols; ++j) c = fma(dy(t, j) * w.values[j], x(t, j) * r, c);
    c = with_named_error(c / static_cast<T>(x.cols));
    for (std::size_t j = 0; j < x.cols; ++j) {
      dx(t, j) = r * (dy(t, j) * w.values[j] - x(t, j) * r * c);
    }
  }
  return dx;
}

// The terms that each row adds to the gradient of the weight.                            // (T, D)
template <class T>
Matrix<T> rms_weight_terms(const Matrix<T>& x, Matrix<T> dy, double eps) {
  for (std::size_t t = 0; t < x.rows; ++t) {
    const T r = inverse_rms(x.row(t), x.cols, eps);
    for (std::size_t j = 0; j < x.cols; ++j) dy(t, j) *= x(t, j) * r;
  }
  return dy;
}

}  // namespace plumb::bounds
