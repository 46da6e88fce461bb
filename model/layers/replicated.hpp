// model/layers/replicated.hpp: gradients of parameters that every tensor-parallel rank holds whole.
//
// Without sequence parallelism each rank has seen all tokens and has the gradient; with it, each
// has the part of its tokens, and the parts are summed in FP32.
#pragma once

#include "model/rank.hpp"

namespace plumb {

inline void collect_replicated(Rank& rank, const std::string& parameter, Tensor gradient) {
  Evaluation ran = rank.in_fp32();
  if (rank.l.sp && rank.joints.gradients.sums_over_sequence(rank.at(parameter))) {
    rank.mesh.tp.sum(gradient.values, fp32);
    ran.parts = rank.where.tp_size;
  }
  rank.collect(parameter, gradient, Held::whole, ran);
}

}  // namespace plumb
