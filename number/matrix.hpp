// number/matrix.hpp: rows, columns, values in row order. A vector is n x 1, a scalar 1 x 1.
//
// TESTED   tests/number/matrix_test.cpp
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "number/unfilled.hpp"

namespace plumb {

struct ToBeWritten {};
inline constexpr ToBeWritten to_be_written;

template <class T>
struct Matrix {
  using Numbers = std::vector<T, Unfilled<T>>;
  std::size_t rows = 0;
  std::size_t cols = 0;
  Numbers values;  // (rows, cols)

  Matrix() = default;
  Matrix(std::size_t r, std::size_t c, T fill = T()) : rows(r), cols(c), values(r * c, fill) {}
  // For values that the caller writes, each of them, before anyone reads it.
  Matrix(std::size_t r, std::size_t c, ToBeWritten) : rows(r), cols(c), values(r * c) {}
  // std::copy is memcpy here; a vector with an allocator of its own copies one by one.
  Matrix(const Matrix& from) : rows(from.rows), cols(from.cols), values(from.size()) {
    std::copy(from.values.begin(), from.values.end(), values.begin());
  }
  Matrix(Matrix&&) noexcept = default;
  Matrix& operator=(const Matrix&) = default;
  Matrix& operator=(Matrix&&) noexcept = default;

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
