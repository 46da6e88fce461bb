// model/step/optimizer.hpp: the end of a step, after the last micro-batch: reduction, clipping,
// Adam.
//
// TESTED   tests/model/one_rank_test.cpp, tests/trace/replay_test.cpp
#pragma once

#include "model/rank/rank.hpp"
#include "model/sees.hpp"

namespace plumb::model {

// `loss`: this rank's micro-batches' share. Records everything from main_grad to param.
void finish_step(Rank& rank, Tensor loss);

}  // namespace plumb::model
