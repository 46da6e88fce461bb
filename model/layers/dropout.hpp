// model/layers/dropout.hpp: dropout on the way into the residual stream.
//
//   x (T, D): this rank's tokens of the stream -> x / (1 - rate) where an element is kept, else 0
// Masks are drawn from Philox by seed, step, canonical id and element of the whole tensor: the same
// in every layout, and in what backward computes again. The gradient is the same for dy.
//
// TESTED   tests/model/one_rank_test.cpp, tests/trace/replay_test.cpp
#pragma once

#include "model/rank/rank.hpp"
#include "model/sees.hpp"

namespace plumb::model {

// Records its result as m<micro-batch>/<name>/<kind>: out, or grad_in. Without dropout returns x.
Tensor dropped(Rank& rank, const std::string& name, const char* kind, Tensor x);

}  // namespace plumb::model
