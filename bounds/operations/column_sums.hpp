// bounds/operations/column_sums.hpp: y_j = sum_i x_ij over slices of the rows, as context- and
// sequence-parallel ranks hold them; each slice one chain of additions from row to row.
#pragma once

#include "bounds/operation.hpp"

namespace plumb {

template <class T>
Matrix<T> column_sums(const Matrix<T>& x, const Evaluation& how, Roundings<T>& roundings) {
  const std::vector<std::size_t> order = dealt_rows(x.rows, how.deal);
  std::vector<Matrix<T>> parts;
  for (int p = 0; p < how.parts; ++p) {
    const auto [first, last] = slice(x.rows, how.parts, p);
    Matrix<T> part(x.cols, 1);
    for (std::size_t i = first; i < last; ++i) {
      for (std::size_t j = 0; j < x.cols; ++j) part.values[j] += x(order[i], j);
    }
    parts.push_back(std::move(part));
  }
  Matrix<T> y = combined(std::move(parts), how, roundings);
  roundings.round(y, how.output);
  return y;
}

}  // namespace plumb
