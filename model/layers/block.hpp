// model/layers/block.hpp: one layer of the Transformer: attention and MLP or experts, each behind a
// norm and beside a residual.
//
// TESTED   tests/model/one_rank_test.cpp, tests/trace/replay_test.cpp
#pragma once

#include "model/layers/attention.hpp"
#include "model/layers/experts.hpp"
#include "model/layers/qkv.hpp"
#include "model/rank/rank.hpp"
#include "model/sees.hpp"

namespace plumb::model {

// The tensors of one layer that backward needs.
struct Saved {
  Tensor x, middle;
  Qkv qkv;
  Operand o;
  Adapter of_proj;
  Attention attention;
  Mlp mlp;  // one of the two
  Experts experts;
};

// x: this rank's tokens of the residual stream.                     // (T or T / tp, C) in and out
Tensor layer_forward(Rank& rank, int layer, Tensor x, Saved& saved);
Tensor layer_backward(Rank& rank, int layer, Saved& saved, const Tensor& dy);

}  // namespace plumb::model
