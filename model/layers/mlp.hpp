// model/layers/mlp.hpp: the MLP of a layer: column-parallel fc1, activation, row-parallel fc2.
//
//   x: this rank's tokens of the stream; dx likewise
#pragma once

#include "model/rank.hpp"

namespace plumb {

struct Mlp {
  Tensor x;         // as fc1 multiplies it                              // (T, D)
  Tensor fc1, act;  // act as fc2 multiplies it                          // (T, H / tp)
};

Tensor mlp_layer(Rank& rank, const std::string& name, const Tensor& x, Mlp& saved);
Tensor mlp_backward(Rank& rank, const std::string& name, const Mlp& saved, const Tensor& dy);

// The activation `name` of what fc1 gave: GELU or SwiGLU.
Tensor activation(Rank& rank, const std::string& name, const Tensor& fc1);
Tensor activation_backward(Rank& rank, const std::string& name, const Tensor& fc1,
                           const Tensor& d_act);

}  // namespace plumb
