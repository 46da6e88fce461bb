// number/product.hpp: matrix products whose bits do not depend on slices. They are the
// judge's, and the reference backend under test uses the one over float as well
// (kernels/reference/gemm.cpp): what guards them are the tests below, not a comparison of the two.
//
//   C = op(A) op(B)  or  C += op(A) op(B)        op(A) (M, K)    op(B) (K, N)    C (M, N)
//
// Every element is one chain c = fma(a_k, b_k, c), k = 0, 1, ... K-1, in the element type, unless
// shorter ones are asked for. So its bits depend on its row, its column and K only, never on the
// slice in which it is computed.
// COSTS    M N K fused multiply-adds, near the machine's peak; packs op(B) once.
// TESTED   tests/number/product_test.cpp (slices, transposes, MPFR),
//          tests/kernels/gemm_test.cpp, tests/bounds/operations/soundness_test.cpp
#pragma once

#include <algorithm>
#include <cstddef>

#include "number/matrix.hpp"

namespace plumb {

// A rectangle inside row-major storage; `transposed` reads it with rows and columns exchanged.
template <class T>
struct View {
  const T* data;
  std::size_t rows, cols;  // of op(A), after the exchange
  std::size_t stride;      // between stored rows
  bool transposed = false;

  T operator()(std::size_t i, std::size_t j) const {
    return transposed ? data[j * stride + i] : data[i * stride + j];
  }
};

template <class T>
View<T> view(const Matrix<T>& m, bool transposed = false) {
  return transposed ? View<T>{m.values.data(), m.cols, m.rows, m.cols, true}
                    : View<T>{m.values.data(), m.rows, m.cols, m.cols, false};
}

// The address of an element by its place; nullptr for an empty matrix, which has no first element.
template <class T>
const T* element(const T* data, std::size_t place) {
  return data == nullptr ? nullptr : data + place;
}

// A slice of the contraction: columns [first, last) of op(A), or rows [first, last) of op(B).
template <class T>
View<T> columns(View<T> a, std::size_t first, std::size_t last) {
  return {element(a.data, a.transposed ? first * a.stride : first), a.rows, last - first, a.stride,
          a.transposed};
}
template <class T>
View<T> rows(View<T> b, std::size_t first, std::size_t last) {
  return {element(b.data, b.transposed ? first : first * b.stride), last - first, b.cols, b.stride,
          b.transposed};
}

// Writes (or, accumulating, continues) C, whose rows lie `c_stride` apart.
// Throws std::invalid_argument if the inner sizes differ.
// T is float, double, BigFloat or ErrorMoments.
template <class T>
void multiply(View<T> a, View<T> b, T* c, std::size_t c_stride, bool accumulate = false);
template <>  // chains.cpp
void multiply(View<float> a, View<float> b, float* c, std::size_t c_stride, bool accumulate);

// C of chains of `chain` terms, whose sums are then added one after the other; 0: one chain of all.
template <class T>
Matrix<T> product(View<T> a, View<T> b, std::size_t chain = 0) {
  Matrix<T> c(a.rows, b.cols, to_be_written);
  if (chain == 0 || chain >= a.cols) {
    multiply(a, b, c.values.data(), c.cols);
    return c;
  }
  c = product(columns(a, 0, chain), rows(b, 0, chain));
  for (std::size_t first = chain; first < a.cols; first += chain) {
    const std::size_t last = std::min(first + chain, a.cols);
    const Matrix<T> next = product(columns(a, first, last), rows(b, first, last));
    for (std::size_t e = 0; e < c.size(); ++e) c.values[e] += next.values[e];
  }
  return c;
}

// |op(A)| |op(B)| of sizes rounded to float, each element a float chain: half the cost of the
// product in FP64, or little more. Throws as multiply does.
Matrix<float> product_of_sizes(View<double> a, View<double> b);

}  // namespace plumb
