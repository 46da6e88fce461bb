#include "experiments/healthy.hpp"

#include <cmath>

#include "bounds/proof/certified.hpp"
#include "experiments/distributions.hpp"
#include "number/rounding.hpp"

namespace plumb::experiments {
namespace {

constexpr std::size_t side = 40;  // 1,600 outputs of a product

Matrix<double> matrix(const std::string& distribution, std::size_t rows, std::size_t cols,
                      const Format& format, std::uint64_t key) {
  Matrix<double> m(rows, cols);
  for (std::size_t e = 0; e < m.size(); ++e) {
    m.values[e] = round_to(draw_from(distribution, key, e), format, {.saturate = true});
  }
  return m;
}

}  // namespace

Question asked(const std::string& operation, const std::string& distribution, std::size_t n,
               const Format& format) {
  Question q{
      operation, distribution, n, {}, {{"eps", 1e-5}, {"transpose_a", 0}, {"transpose_b", 1}}};
  const auto give = [&](std::size_t rows, std::size_t cols, std::uint64_t key) {
    q.inputs.push_back(matrix(distribution, rows, cols, format, key));
  };
  if (operation == "gemm") {
    give(side, n, 100);
    give(side, n, 200);
    if (distribution == "cancelling") {
      for (std::size_t i = 0; i < side; ++i) {
        for (std::size_t k = 1; k < n; k += 2) {
          q.inputs[0](i, k) = -q.inputs[0](i, k - 1);
          q.inputs[1](i, k) = round_to(q.inputs[1](i, k - 1) * (1 + 0x1p-6), format);
        }
      }
    }
  } else {
    give(side, n, 100);
    if (operation == "softmax") return q;
    q.inputs.push_back(matrix("positive", n, 1, format, 300));
    if (operation == "layernorm") q.inputs.push_back(matrix("zero-mean", n, 1, format, 400));
  }
  return q;
}

Matrix<double> true_result(const Question& q) {
  if (q.operation == "gemm") {
    return certified_product(view(q.inputs[0]), view(q.inputs[1], true)).value;
  }
  ExactRoundings none;
  Call<double> meant{{}, q.attributes, {}, none};
  for (const Matrix<double>& input : q.inputs) meant.inputs.push_back(&input);
  return find_operation(q.operation)->value(meant)[0];
}

Compared compared(const Tensor& computed, const Matrix<double>& truth,
                  const Matrix<double>& bound) {
  Compared seen;
  double largest_error = 0, largest_bound = 0;
  for (std::size_t e = 0; e < truth.size(); ++e) {
    const double error = std::fabs(static_cast<double>(computed.values[e]) - truth.values[e]);
    if (error > 0) seen.nearest = std::max(seen.nearest, error / bound.values[e]);
    if (error > bound.values[e]) ++seen.outside;
    largest_error = std::max(largest_error, error);
    largest_bound = std::max(largest_bound, bound.values[e]);
  }
  seen.looseness = largest_error > 0 ? largest_bound / largest_error : 0;
  return seen;
}

}  // namespace plumb::experiments
