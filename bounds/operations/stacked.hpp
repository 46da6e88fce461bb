// bounds/operations/stacked.hpp: operations that are several products of gemm, one below another.
//
// TESTED   tests/bounds/operations/batched_gemm_test.cpp
#pragma once

#include <optional>

#include "bounds/sees.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {

template <class T>
void put_below(Matrix<T>& stacked, const Matrix<T>& block) {
  stacked.rows += block.rows;
  stacked.cols = block.cols;
  stacked.values.insert(stacked.values.end(), block.values.begin(), block.values.end());
}

// gemm over any of its number types.
template <class T>
std::vector<Matrix<T>> product_of(const Call<T>& call) {
  const Operation& gemm = *find_operation("gemm");
  if constexpr (std::is_same_v<T, float>) return gemm.evaluate(call);
  if constexpr (std::is_same_v<T, double>) return gemm.value(call);
  if constexpr (std::is_same_v<T, BigFloat>) return gemm.truth(call);
}

// The tolerance of stacked products: gemm's of each; a probability is shared equally among them.
class StackedTolerance {
 public:
  explicit StackedTolerance(const ToleranceCall& call);

  // Adds the next of `products`, with the value that the whole call gave it. Returns gemm's
  // refusal.
  std::optional<Refusal> add(std::vector<const Matrix<double>*> inputs,
                             const std::vector<Matrix<double>>& values, std::size_t products);
  // Adds rows that nothing is computed for.
  void add_exact(std::size_t rows, std::size_t cols);
  Tolerance whole() const { return all_; }

 private:
  const ToleranceCall& call_;
  Tolerance all_;
  std::size_t added_ = 0;
  double largest_ = 0;  // bound so far, whose terms are told
};

}  // namespace plumb::bounds
