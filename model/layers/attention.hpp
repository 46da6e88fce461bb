// model/layers/attention.hpp: rotation and causal attention over this rank's heads.
//
//   qkv (T, F / tp) -> o (T, D / tp);  backward: do (T, D / tp) -> dqkv (T, F / tp)
#pragma once

#include "model/rank.hpp"

namespace plumb {

struct Attention {
  Tensor qkv;  // what the scores were made of (rotated for llama)
  // Rounded probabilities per sequence and head; none where backward computes them again. // (S, S)
  std::vector<Tensor> p;
};

Tensor attention_layer(Rank& rank, const std::string& name, Tensor qkv, Attention& saved);
Tensor attention_layer_backward(Rank& rank, const std::string& name, Attention& saved,
                                const Tensor& d_o);

}  // namespace plumb
