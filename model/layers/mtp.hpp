// model/layers/mtp.hpp: an extra head: one more block predicts the token after the next, from what
// the last layer knows and from the next token.
//
//   x (T, D), ids of the next tokens -> norm(x) W + norm(E[next]) W' -> block -> norm -> head, loss
// Embedding and head are the model's own. It lives on the last stage of a pipeline, which does both
// forward and backward of it at once, as of the head. Every tensor-parallel rank holds W and W'.
// SOURCES  bounds/SOURCES.md [DeepSeek-V3] 2.2, which has one W for both, next to each other
#pragma once

#include "model/layers/ends.hpp"

namespace plumb {

// The end of the last stage, all heads: from what the last layer puts out to its gradient; x, dx:
// this rank's tokens of the stream. `loss`: that of the next token, in this micro-batch.
Tensor heads(Rank& rank, const Batch& batch, const Tensor& x, Tensor& loss);

}  // namespace plumb
