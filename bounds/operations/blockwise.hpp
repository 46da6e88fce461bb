// bounds/operations/blockwise.hpp: products and largest scores of blocks, over any number type.
#pragma once

#include <type_traits>

#include "bounds/proof/running_error.hpp"
#include "bounds/sees.hpp"
#include "number/product.hpp"

namespace plumb::bounds {

// c += a b, for RunningError too, which has no packed product.
template <class T>
void add_product(const Matrix<T>& a, const Matrix<T>& b, Matrix<T>& c) {
  if constexpr (std::is_same_v<T, RunningError>) {
    for (std::size_t i = 0; i < c.rows; ++i) {
      for (std::size_t j = 0; j < c.cols; ++j) {
        for (std::size_t k = 0; k < b.rows; ++k) c(i, j) = fma(a(i, k), b(k, j), c(i, j));
      }
    }
  } else {
    multiply(view(a), view(b), c.values.data(), c.cols, true);
  }
}

template <class T>
Matrix<T> transposed(const Matrix<T>& x) {
  Matrix<T> y(x.cols, x.rows);
  for (std::size_t i = 0; i < x.rows; ++i) {
    for (std::size_t j = 0; j < x.cols; ++j) y(j, i) = x(i, j);
  }
  return y;
}

// Returns the larger of two. Where FP32 may take the other one, its error is that of either.
template <class T>
T larger(const T& a, const T& b) {
  if constexpr (std::is_same_v<T, RunningError>) {
    return -min(-a, -b);
  } else {
    return a < b ? b : a;
  }
}
// May FP32 find that b is larger?
template <class T>
bool may_exceed(const T& a, const T& b) {
  if constexpr (std::is_same_v<T, RunningError>) {
    return !(b.value + b.worst() <= a.value - a.worst());
  } else {
    return a < b;
  }
}

}  // namespace plumb::bounds
