// model/layers/mtp.hpp: an extra head: one more block predicts the token after the next, from the
// last layer's output and from the next token.
//
//   x (T, D), ids of the next tokens -> norm(x) W + norm(E[next]) W' -> block -> norm -> head, loss
//
// Embedding and head are the model's own. The extra head lives on the last stage of a pipeline,
// which runs its forward and backward at once, as those of the head. Every tensor-parallel rank
// holds W and W'.
//
// TESTED   tests/model/one_rank_test.cpp, tests/trace/replay_test.cpp
// SOURCES  bounds/SOURCES.md [DeepSeek-V3] 2.2, which has one W for both, next to each other
#pragma once

#include "model/layers/batch.hpp"
#include "model/rank/rank.hpp"
#include "model/sees.hpp"

namespace plumb::model {

// Runs all heads, at the end of the last stage. x: this rank's tokens of the last layer's output;
// returns its gradient. `loss`: that of the next token, in this micro-batch.
Tensor heads(Rank& rank, const Batch& batch, const Tensor& x, Tensor& loss);

}  // namespace plumb::model
