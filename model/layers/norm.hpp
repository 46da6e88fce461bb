// model/layers/norm.hpp: LayerNorm (gpt) or RMSNorm (llama) over this rank's tokens of the stream.
//
// TESTED   tests/model/one_rank_test.cpp, tests/trace/replay_test.cpp
#pragma once

#include "model/rank/rank.hpp"
#include "model/sees.hpp"

namespace plumb::model {

Tensor norm_layer(Rank& rank, const std::string& name, const Tensor& x);
Tensor norm_layer_backward(Rank& rank, const std::string& name, const Tensor& x, const Tensor& dy);
// y = a + b, recorded as `name`, within a layer and in the residual stream.
Tensor sum_of_two(Rank& rank, const std::string& name, const Tensor& a, const Tensor& b);
Tensor residual(Rank& rank, const std::string& name, const Tensor& a, const Tensor& b);
// What a branch beside the stream gets of its gradient, through its dropout or as `compute` holds it.
Tensor branch_gradient(Rank& rank, const std::string& name, const Tensor& dy);
Tensor as_computed(Rank& rank, const std::string& name, const Tensor& dy);  // the latter

}  // namespace plumb::model
