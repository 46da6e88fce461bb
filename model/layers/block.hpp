// model/layers/block.hpp: one layer of the Transformer: attention and MLP, each behind a norm and
// beside a residual.
#pragma once

#include "model/layers/attention.hpp"
#include "model/rank.hpp"

namespace plumb {

// What backward needs of one layer.
struct Saved {
  Tensor x, norm1, o, middle, norm2, fc1, act;
  Attention attention;
};

// x: this rank's tokens of the residual stream.                     // (T or T / tp, C) in and out
Tensor layer_forward(Rank& rank, int layer, Tensor x, Saved& saved);
Tensor layer_backward(Rank& rank, int layer, Saved& saved, const Tensor& dy);

}  // namespace plumb
