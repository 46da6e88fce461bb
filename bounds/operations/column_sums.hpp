// bounds/operations/column_sums.hpp: y_j = sum_i x_ij over slices of the rows, as context- and
// sequence-parallel ranks hold them, or in another parting; each slice one chain of additions from
// row to row, or as the call asks.
//
// TESTED   tests/bounds/operations/soundness_test.cpp (column_sum)
#pragma once

#include "bounds/operation.hpp"
#include "bounds/sees.hpp"
#include "bounds/sum.hpp"

namespace plumb::bounds {

template <class T>
Matrix<T> column_sums(const Matrix<T>& x, const SumPartition& parted, const Evaluation& how,
                      Roundings<T>& roundings, const SumsIn& in) {
  const auto& [order, begins] = parted;
  std::vector<Matrix<T>> parts;
  for (std::size_t p = 0; p + 1 < begins.size(); ++p) {
    SumTable<T> part(x.cols, 1, in);
    for (std::size_t i = begins[p]; i < begins[p + 1]; ++i) part.add_to_each(x.row(order[i]));
    parts.push_back(std::move(part).totals());
  }
  Matrix<T> y = sum_in_rank_order(std::move(parts), how, roundings);
  roundings.round(y, how.output);
  return y;
}
template <class T>
Matrix<T> column_sums(const Matrix<T>& x, const Evaluation& how, Roundings<T>& roundings,
                      const SumsIn& in) {
  return column_sums(x, parting(x.rows, how), how, roundings, in);
}

}  // namespace plumb::bounds
