// batched_gemm: C_i = A_i B_i for i = 0 ... batch - 1, each product as gemm promises it
//
//   inputs   A (batch M, K), B (batch K, N): the matrices one below the other; transposed ones each
//            (K, M), (N, K)                                              C (batch M, N)
//   attributes   batch; transpose_a, transpose_b: of each matrix
//   tolerance    gemm's of each product; a probability is shared equally among them
#include <stdexcept>

#include "bounds/tolerance.hpp"

namespace plumb {
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
void put_below(Matrix<T>& stacked, const Matrix<T>& block) {
  stacked.rows += block.rows;
  stacked.cols = block.cols;
  stacked.values.insert(stacked.values.end(), block.values.begin(), block.values.end());
}

template <class T>
std::vector<Matrix<T>> product_of(const Call<T>& call) {
  const Operation& gemm = *find_operation("gemm");
  if constexpr (std::is_same_v<T, float>) return gemm.evaluate(call);
  if constexpr (std::is_same_v<T, double>) return gemm.value(call);
  if constexpr (std::is_same_v<T, Truth>) return gemm.truth(call);
}

template <class T>
std::vector<Matrix<T>> evaluate(const Call<T>& call) {
  const std::size_t batch = call.count("batch");
  Matrix<T> c;
  for (std::size_t i = 0; i == 0 || i < batch; ++i) {
    const Matrix<T> a = block_of(call[0], batch, i), b = block_of(call[1], batch, i);
    put_below(c, product_of<T>({{&a, &b}, call.attributes, call.how, call.roundings})[0]);
  }
  return alone(std::move(c));
}

// The larger share of each term, by name.
void merge(std::vector<Term>& terms, const std::vector<Term>& others) {
  for (const Term& other : others) {
    const auto same = [&](const Term& t) { return t.name == other.name; };
    const auto found = std::ranges::find_if(terms, same);
    if (found != terms.end()) {
      found->largest = std::max(found->largest, other.largest);
    } else {
      terms.push_back(other);
    }
  }
}

Outcome<Tolerance> tolerance(const ToleranceCall& call) {
  if (const auto refused = refusals_before(call); !refused.empty()) return refused.front();
  const std::size_t batch = call.count("batch");
  const double delta = call.mode == Mode::probabilistic ? call.delta : 0;
  Tolerance all{call.mode, delta, {}, {}, {}};
  all.bound.emplace_back();
  all.terms.emplace_back();
  if (call.mode == Mode::moments) all.bias.emplace_back();
  for (std::size_t i = 0; i == 0 || i < batch; ++i) {
    const Matrix<double> a = block_of(call[0], batch, i), b = block_of(call[1], batch, i);
    const std::vector<Matrix<double>> values{block_of(call.values[0], batch, i)};
    const double share = delta / static_cast<double>(batch);
    const Outcome<Tolerance> one = find_operation("gemm")->tolerance(
        {{&a, &b}, call.attributes, call.how, call.mode, share, values});
    if (!one) {
      return Refusal{one.error().why, "product " + std::to_string(i) + ": " + one.error().detail};
    }
    put_below(all.bound[0], one->bound[0]);
    if (call.mode == Mode::moments) put_below(all.bias[0], one->bias[0]);
    merge(all.terms[0], one->terms[0]);
  }
  return all;
}

}  // namespace

extern const Operation batched_gemm{"batched_gemm", evaluate<float>, evaluate<double>,
                                    evaluate<Truth>, tolerance};

}  // namespace plumb
