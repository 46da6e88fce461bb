// model/layers/ring.hpp: attention whose keys and values go round the context-parallel ranks: turn
// s brings a rank those of the rank s before it, while its own are on their way to the rank s after
// it. Gradients of keys and values travel with them, and one turn more, home.
//
// A rank computes probabilities again in backward, from the logarithms of its sums.
#pragma once

#include "model/layers/attention.hpp"

namespace plumb {

inline bool goes_round(const Rank& rank) {
  return rank.where.cp_size > 1 && rank.l.context == Context::ring;
}

// `shape` as attention sees it, `sinks` in it. o is not rounded yet; lse is saved.
Tensor ring_forward(Rank& rank, const std::string& name, const HeadShape& shape, Attention& saved);
// From o as saved; unscaled, in FP32.
CoreGradient ring_backward(Rank& rank, const std::string& name, const HeadShape& shape,
                           const Attention& saved, const Tensor& d_o);

}  // namespace plumb
