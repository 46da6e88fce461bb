// model/layers/attention.hpp: rotation and causal attention over this rank's heads and tokens.
//
//   forward    qkv (T / cp, F / tp) -> o (T / cp, C / tp)
//   backward   do (T / cp, C / tp) -> dqkv (T / cp, F / tp)
//
// TESTED   tests/model/one_rank_test.cpp, tests/trace/replay_test.cpp
#pragma once

#include "model/rank/rank.hpp"
#include "model/sees.hpp"

namespace plumb::model {

struct Attention {
  Tensor unnormed;  // qkv before the norm of its heads, where there is one
  // The tensors that scores are made of, rotated for llama: `qkv` of this rank's tokens, `kv` of
  // all if others have some of them. Under ulysses both are of all tokens and fewer heads.
  Tensor qkv, kv;
  // Rounded probabilities per sequence and head; none where backward computes them again. // (Q, S)
  std::vector<Tensor> p;
  std::vector<Tensor> taken;  // the sinks' probabilities, where there are sinks        // (Q, 1)
  // Where keys go round, instead of these: logarithms of sums per sequence and head, and o.
  std::vector<Tensor> lse;  // (Q, 1)
  Tensor o;

  bool lacks_probabilities() const { return p.empty() && lse.empty(); }
  void forget_probabilities() {
    p.clear();
    taken.clear();
    lse.clear();
  }

  const Tensor& keys() const { return kv.size() == 0 ? qkv : kv; }
};

// The gradient of attention's inputs.
struct CoreGradient {
  Tensor qkv, sinks;
};

// The shape of this rank's heads and tokens, as packing, norm and rotation see them.
HeadShape local_shape(const Rank& rank);

Tensor attention_layer(Rank& rank, const std::string& name, Tensor qkv, Attention& saved);
Tensor attention_layer_backward(Rank& rank, const std::string& name, Attention& saved, Tensor d_o);

}  // namespace plumb::model
