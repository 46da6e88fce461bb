// model/optimizer.hpp: what follows the last micro-batch: reduction, clipping, Adam.
#pragma once

#include "model/rank.hpp"

namespace plumb {

// `loss`: this rank's micro-batches' share. Records everything from main_grad to param.
void finish_step(Rank& rank, Tensor loss);

}  // namespace plumb
