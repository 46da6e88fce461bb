// model/step/pipeline.hpp: forward and backward of all micro-batches of a rank, through its stages.
//
// TESTED   tests/model/one_rank_test.cpp, tests/trace/replay_test.cpp
#pragma once

#include "model/layers/batch.hpp"
#include "model/rank/rank.hpp"
#include "model/sees.hpp"

namespace plumb::model {

// batches: this data-parallel rank's, in order. Gradients accumulate in rank.main_grad. Returns the
// sum of the losses on ranks with the last stage, zero elsewhere.                         // (1, 1)
Tensor forward_and_backward(Rank& rank, const std::vector<Batch>& batches);

}  // namespace plumb::model
