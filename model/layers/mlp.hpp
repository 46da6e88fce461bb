// model/layers/mlp.hpp: the MLP of a layer: column-parallel fc1, activation, row-parallel fc2.
//
//   x: this rank's tokens of the stream; dx likewise
//
// TESTED   tests/model/one_rank_test.cpp, tests/trace/replay_test.cpp
#pragma once

#include "model/layers/adapter.hpp"
#include "model/layers/operand.hpp"
#include "model/rank/rank.hpp"
#include "model/sees.hpp"

namespace plumb::model {

struct Mlp {
  Operand x;   // input of fc1                                                  // (T, D)
  Tensor fc1;  // (T, H / tp)
  Adapter of_fc1, of_fc2;
  Operand act;  // input of fc2                                                  // (T, H / tp)
};

Tensor mlp_layer(Rank& rank, const std::string& name, Tensor x, Mlp& saved);
Tensor mlp_backward(Rank& rank, const std::string& name, const Mlp& saved, Tensor dy);

// The activation `name` of fc1's output: GELU or SwiGLU. `held`: how both lie in the whole.
Tensor activation(Rank& rank, const std::string& name, const Tensor& fc1, Sharding sharding);
Tensor activation_backward(Rank& rank, const std::string& name, const Tensor& fc1,
                           const Tensor& d_act, Sharding sharding);

}  // namespace plumb::model
