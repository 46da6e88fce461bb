#include "model/layers/context.hpp"

namespace plumb::model {
namespace {

Tensor chosen_rows(const Tensor& x, const std::vector<std::size_t>& rows) {
  Tensor y(rows.size(), x.cols);
  for (std::size_t i = 0; i < rows.size(); ++i) std::copy_n(x.row(rows[i]), x.cols, y.row(i));
  return y;
}

Tensor columns_from(const Tensor& x, std::size_t first, std::size_t n) {
  Tensor y(x.rows, n);
  for (std::size_t i = 0; i < x.rows; ++i) std::copy_n(x.row(i) + first, n, y.row(i));
  return y;
}

}  // namespace

Tensor tokens_of(const Rank& rank, int context, const Tensor& all) {
  return rank.where.cp_size == 1 ? all : chosen_rows(all, rank.rows_of(context));
}

Tensor own_context(const Rank& rank, const Tensor& all) {
  return tokens_of(rank, rank.where.cp, all);
}

Tensor whole_context(const Rank& rank, const Tensor& own) {
  if (rank.where.cp_size == 1) return own;
  const Tensor gathered = rank.mesh.cp.gather_rows(own);
  Tensor all(gathered.rows, gathered.cols);
  std::size_t next = 0;
  for (int r = 0; r < rank.where.cp_size; ++r) {
    for (const std::size_t row : rank.rows_of(r)) {
      std::copy_n(gathered.row(next++), all.cols, all.row(row));
    }
  }
  return all;
}

Tensor heads_for_tokens(const Rank& rank, const Tensor& own) {
  const auto n = static_cast<std::size_t>(rank.where.cp_size);
  const std::size_t width = own.cols / n;
  std::vector<Tensor> to;
  for (std::size_t r = 0; r < n; ++r) to.push_back(columns_from(own, r * width, width));
  const std::vector<Tensor> got = rank.mesh.cp.exchange(to);
  Tensor heads(own.rows * n, width);
  for (std::size_t r = 0; r < n; ++r) {
    const auto rows = rank.rows_of(static_cast<int>(r));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      std::copy_n(got[r].row(i), width, heads.row(rows[i]));
    }
  }
  return heads;
}

Tensor tokens_for_heads(const Rank& rank, const Tensor& heads) {
  const int n = rank.where.cp_size;
  std::vector<Tensor> to;
  for (int r = 0; r < n; ++r) to.push_back(chosen_rows(heads, rank.rows_of(r)));
  const std::vector<Tensor> got = rank.mesh.cp.exchange(to);
  Tensor own(got.front().rows, heads.cols * static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < own.rows; ++i) {
    for (std::size_t r = 0; r < got.size(); ++r) {
      std::copy_n(got[r].row(i), heads.cols, own.row(i) + r * heads.cols);
    }
  }
  return own;
}

}  // namespace plumb::model
