// batched_gemm: C_i = A_i B_i for i = 0 ... batch - 1, each product as gemm promises it
//
//   inputs       A (batch M, K), B (batch K, N): the matrices one below the other; transposed ones
//                each (K, M), (N, K)                                           C (batch M, N)
//   attributes   batch; transpose_a, transpose_b: of each matrix
//   tolerance    gemm's of each product; a probability is shared equally among them
#include <algorithm>
#include <stdexcept>

#include "bounds/examples/maker.hpp"
#include "bounds/examples/random.hpp"
#include "bounds/operations/stacked.hpp"

namespace plumb::bounds {
namespace {

template <class T>
Matrix<T> block_of(const Matrix<T>& stacked, std::size_t batch, std::size_t i) {
  if (batch == 0 || stacked.rows % batch != 0) {
    throw std::invalid_argument("batched_gemm: " + std::to_string(stacked.rows) +
                                " rows are no batch of " + std::to_string(batch) + " matrices");
  }
  Matrix<T> block(stacked.rows / batch, stacked.cols);
  std::copy_n(stacked.row(i * block.rows), block.size(), block.values.begin());
  return block;
}

template <class T>
std::vector<Matrix<T>> evaluate(const Call<T>& call) {
  const std::size_t batch = call.count("batch");
  Matrix<T> c;
  for (std::size_t i = 0; i == 0 || i < batch; ++i) {
    const Matrix<T> a = block_of(call[0], batch, i), b = block_of(call[1], batch, i);
    put_below(c, product_of<T>({{&a, &b}, call.attributes, call.how, call.roundings})[0]);
  }
  return as_outputs(std::move(c));
}

Outcome<Tolerance> tolerance(const ToleranceCall& call) {
  if (const auto refused = refusals_before(call); !refused.empty()) return refused.front();
  const std::size_t batch = call.count("batch");
  StackedTolerance all(call);
  for (std::size_t i = 0; i == 0 || i < batch; ++i) {
    const Matrix<double> a = block_of(call[0], batch, i), b = block_of(call[1], batch, i);
    const std::vector<Matrix<double>> values{block_of(call.values[0], batch, i)};
    if (const auto refused = all.add({&a, &b}, values, batch)) return *refused;
  }
  return all.whole();
}

void random(RandomCall& c) {
  const std::size_t batch = c.draw.between(1, 4), k = c.draw.between(1, 60);
  const bool ta = c.draw.coin(), tb = c.draw.coin();
  c.e.attributes = {
      {"batch", static_cast<double>(batch)}, {"transpose_a", ta}, {"transpose_b", tb}};
  ta ? c.give(batch * k, c.rows) : c.give(batch * c.rows, k);
  tb ? c.give(batch * c.cols, k) : c.give(batch * k, c.cols);
}

// Four products of ROWS x COLUMNS times COLUMNS x ROWS.
void shaped(Maker& m) {
  m.limit_products({4, m.rows, m.cols, m.rows});
  m.limit_values({4, m.rows, std::max(m.rows, m.cols)});
  m.drawn(4 * m.rows, m.cols);
  m.drawn(4 * m.rows, m.cols);
  m.e.attributes = {{"batch", 4}, {"transpose_a", 0}, {"transpose_b", 1}};
}

}  // namespace

extern const Operation batched_gemm{
    .id = "batched_gemm",
    .evaluate = evaluate<float>,
    .value = evaluate<double>,
    .truth = evaluate<BigFloat>,
    .tolerance = tolerance,
    .sums = SumOrder::any,
    .traits = {.kind = Kind::product},
    .schema = {.inputs = {where({"A", "batch M", "K"}, "transpose_a", "batch K", "M"),
                          where({"B", "batch K", "N"}, "transpose_b", "batch N", "K")},
               .outputs = {{"C", "batch M", "N"}},
               .attributes = {count("batch"), flag("transpose_a"), flag("transpose_b")}},
    .examples = {.random = random, .shaped = shaped, .usual = "16x1024"},
};

}  // namespace plumb::bounds
