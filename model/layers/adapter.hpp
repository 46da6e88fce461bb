// model/layers/adapter.hpp: an adapter of low rank beside a linear layer, y = x W + b + (x A) B.
//
//   column   x (T, D) whole:    A (D, r) whole on every rank, B (r, F / tp) column-parallel
//   row      x (T, F / tp):     A (F / tp, r) row-parallel, B (r, D) whole on every rank
//
// A is NAME.adapter_down, B NAME.adapter_up, the sum NAME.adapted. Where a model has no adapters,
// all of these return what the layer itself has made. (Hu et al., arXiv 2106.09685; B does not start
// from zero here, so that the first step has gradients of both, and there is no factor.)
//
// TESTED   tests/model/adapter_test.cpp, tests/model/one_rank_test.cpp
#pragma once

#include "model/layers/operand.hpp"
#include "model/sees.hpp"

namespace plumb::model {

// The inputs of A and B that backward needs.
struct Adapter {
  Operand x, low;
};

// The input of a layer, kept for its adapter; without adapters nothing.
Tensor kept_for_adapter(const Rank& rank, const Tensor& x);

// x: all tokens; y: x W + b of the layer `name`.                              // (T, F / tp)
Tensor adapted_columns(Rank& rank, const std::string& name, Tensor x, Tensor y, Adapter& saved);
// dx: the gradient that the layer itself gives its input.             // this rank's tokens, D
Tensor adapted_columns_backward(Rank& rank, const std::string& name, const Adapter& saved,
                                Tensor dy, Tensor dx);

// y: this rank's tokens of the stream.
Tensor adapted_rows(Rank& rank, const std::string& name, Tensor x, Tensor y, Adapter& saved);
Tensor adapted_rows_backward(Rank& rank, const std::string& name, const Adapter& saved,
                             const Tensor& dy, Tensor dx);  // (T, F / tp)

}  // namespace plumb::model
