// model/layers/experts.hpp: a mixture of experts in place of an MLP: router, copies of the tokens
// to their experts, and their weighed sum; beside them, perhaps, a shared expert that takes all.
//
//   x, y, dy, dx: this rank's tokens of the stream. Each tensor-parallel rank holds a slice of
//   every expert, as of an MLP, and all T k rows.
#pragma once

#include "model/layers/mlp.hpp"
#include "model/layers/router.hpp"

namespace plumb {

struct Experts {
  Routed routed;
  Operand rows;  // what fc1 multiplies                                          // (T k, D)
  Tensor fc1;    // (T k, H / tp)
  Operand act;   // what fc2 multiplies                                          // (T k, H / tp)
  Tensor fc2;    // (T k, D)
  Mlp shared;
};

Tensor experts_layer(Rank& rank, const std::string& name, const Tensor& x, Experts& saved);
Tensor experts_backward(Rank& rank, const std::string& name, const Experts& saved,
                        const Tensor& dy);

}  // namespace plumb
