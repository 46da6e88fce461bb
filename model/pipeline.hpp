// model/pipeline.hpp: forward and backward of all micro-batches of a rank, through its stages.
#pragma once

#include "model/layers/ends.hpp"
#include "model/rank.hpp"

namespace plumb {

// batches: this data-parallel rank's, in order. Gradients pile up in rank.main_grad. Returns the
// sum of the losses on ranks with the last stage, zero elsewhere.                            // (1,
// 1)
Tensor forward_and_backward(Rank& rank, const std::vector<Batch>& batches);

}  // namespace plumb
