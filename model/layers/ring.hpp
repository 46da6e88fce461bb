// model/layers/ring.hpp: attention whose keys and values go round the context-parallel ranks. Turn
// s brings a rank the keys and values of the rank s before it, while its own are on their way to
// the rank s after it. Their gradients travel with them, and one turn more, home.
//
// Backward computes probabilities again, from the logarithms of the sums.
//
// TESTED   tests/model/one_rank_test.cpp, tests/trace/replay_test.cpp
#pragma once

#include "model/layers/attention.hpp"
#include "model/sees.hpp"

namespace plumb::model {

inline bool goes_round(const Rank& rank) {
  return rank.where.cp_size > 1 && rank.l.context == Context::ring;
}

// `shape` as attention sees it, with `sinks`. o is not rounded yet; lse is saved.
Tensor ring_forward(Rank& rank, const std::string& name, const HeadShape& shape, Attention& saved);
// Starts from the saved o. Returns gradients unscaled, in FP32.
CoreGradient ring_backward(Rank& rank, const std::string& name, const HeadShape& shape,
                           const Attention& saved, Tensor d_o);

}  // namespace plumb::model
