// number/tiles.hpp: how multiply (number/product.hpp) is made for any type of numbers.
//
// For whoever instantiates it for numbers of their own: number/product.cpp for double,
// bounds/proof/product.cpp for those that proofs are made with. FP32 has lines of its own
// (number/chains.cpp).
// TESTED   tests/number/product_test.cpp
#pragma once

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <type_traits>

#include "number/instructions.hpp"
#include "number/product.hpp"

namespace plumb {

template <class T>
constexpr std::size_t panel = 256 / sizeof(T);  // columns of a tile: four 64-byte vectors

// R rows by one panel of C. Plain loops with constant ends: both compilers keep `sum` in registers.
template <class T, std::size_t R>
PLUMB_WITHIN inline void tile_within(const View<T>& a, std::size_t i, const T* packed, T* c,
                                     std::size_t c_stride, std::size_t width, bool accumulate) {
  T sum[R][panel<T>] = {};
  if (accumulate) {
    for (std::size_t r = 0; r < R; ++r) {
      for (std::size_t j = 0; j < width; ++j) sum[r][j] = c[r * c_stride + j];
    }
  }
  const std::size_t row_step = a.transposed ? 1 : a.stride;
  const std::size_t k_step = a.transposed ? a.stride : 1;
  const T* first = element(a.data, i * row_step);
  using std::fma;
  for (std::size_t k = 0; k < a.cols; ++k) {
    for (std::size_t r = 0; r < R; ++r) {
      const T x = first[r * row_step + k * k_step];
      for (std::size_t j = 0; j < panel<T>; ++j) {
        sum[r][j] = fma(x, packed[k * panel<T> + j], sum[r][j]);
      }
    }
  }
  for (std::size_t r = 0; r < R; ++r) {
    for (std::size_t j = 0; j < width; ++j) c[r * c_stride + j] = sum[r][j];
  }
}

template <class T, std::size_t R>
void tile(const View<T>& a, std::size_t i, const T* packed, T* c, std::size_t c_stride,
          std::size_t width, bool accumulate) {
  const auto work = [=]() PLUMB_WITHIN {
    tile_within<T, R>(a, i, packed, c, c_stride, width, accumulate);
  };
  if constexpr (std::is_same_v<T, double>) {
    for_this_processor(work);
  } else {  // no machine has instructions for such numbers
    work();
  }
}

// Columns [j, j + width) of op(B), padded with zeros to a full panel.
template <class T>
void pack(const View<T>& b, std::size_t j, std::size_t width, typename Matrix<T>::Numbers& packed) {
  packed.resize(b.rows * panel<T>);
  for (std::size_t k = 0; k < b.rows; ++k) {
    T* to = packed.data() + k * panel<T>;
    for (std::size_t n = 0; n < width; ++n) to[n] = b(k, j + n);
    std::fill(to + width, to + panel<T>, T(0));
  }
}

template <class T>
void multiply(View<T> a, View<T> b, T* c, std::size_t c_stride, bool accumulate) {
  if (a.cols != b.rows) throw std::invalid_argument("multiply: A's columns are not B's rows");
  typename Matrix<T>::Numbers packed;
  for (std::size_t j = 0; j < b.cols; j += panel<T>) {
    const std::size_t width = std::min(panel<T>, b.cols - j);
    pack(b, j, width, packed);
    std::size_t i = 0;
    for (; i + 6 <= a.rows; i += 6) {
      tile<T, 6>(a, i, packed.data(), c + i * c_stride + j, c_stride, width, accumulate);
    }
    for (; i < a.rows; ++i) {
      tile<T, 1>(a, i, packed.data(), c + i * c_stride + j, c_stride, width, accumulate);
    }
  }
}

}  // namespace plumb
