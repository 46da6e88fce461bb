// bounds/number/matrix.hpp: rows, columns, values in row order. A vector is n x 1, a scalar 1 x 1.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace plumb {

template <class T>
struct Matrix {
  std::size_t rows = 0;
  std::size_t cols = 0;
  std::vector<T> values;  // (rows, cols)

  Matrix() = default;
  Matrix(std::size_t r, std::size_t c, T fill = T()) : rows(r), cols(c), values(r * c, fill) {}

  T& operator()(std::size_t i, std::size_t j) { return values[i * cols + j]; }
  const T& operator()(std::size_t i, std::size_t j) const { return values[i * cols + j]; }
  T* row(std::size_t i) { return values.data() + i * cols; }
  const T* row(std::size_t i) const { return values.data() + i * cols; }
  std::size_t size() const { return values.size(); }
  bool operator==(const Matrix&) const = default;
};

using Tensor = Matrix<float>;

// The same values in another precision; exact when it is wider.
template <class To, class From>
Matrix<To> converted(const Matrix<From>& from) {
  Matrix<To> to(from.rows, from.cols);
  std::transform(from.values.begin(), from.values.end(), to.values.begin(),
                 [](From x) { return static_cast<To>(x); });
  return to;
}

}  // namespace plumb
