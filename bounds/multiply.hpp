// bounds/multiply.hpp: how evaluations in FP32 multiply. By chains of fused multiply-adds
// (number/product.hpp), unless a scope names another way: the steps of a matrix unit.
//
// TESTED   tests/experiments/truncating_test.cpp
#pragma once

#include <functional>
#include <optional>

#include "bounds/sees.hpp"
#include "number/matrix.hpp"
#include "number/product.hpp"

namespace plumb::bounds {

// Of a (M, K) and b (K, N) their product, or nothing if it is of other numbers.
using Multiply = std::function<std::optional<Tensor>(View<float> a, View<float> b)>;

inline constinit thread_local const Multiply* multiply_in_force = nullptr;

class MultiplyScope {
 public:
  // nullptr: by chains.
  explicit MultiplyScope(const Multiply* now) : before_(multiply_in_force) {
    multiply_in_force = now;
  }
  MultiplyScope(const MultiplyScope&) = delete;
  MultiplyScope& operator=(const MultiplyScope&) = delete;
  ~MultiplyScope() { multiply_in_force = before_; }

 private:
  const Multiply* before_;
};

}  // namespace plumb::bounds
