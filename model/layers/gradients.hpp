// model/layers/gradients.hpp: a micro-batch's gradients of parameters, summed over the ranks that
// each have some of its tokens.
//
// Every context-parallel rank has its tokens' part. Of a parameter that every tensor-parallel rank
// holds whole, sequence-parallel ranks have only their slice's part. Parts are summed in FP32.
#pragma once

#include "model/rank.hpp"

namespace plumb {

// `gradient` of a slice of a parameter, or of what all tensor-parallel ranks do alike. Returns how
// it was summed.
inline Evaluation sum_over_contexts(Rank& rank, const std::string& parameter, Tensor& gradient) {
  Evaluation ran = rank.in_fp32();
  if (rank.where.cp_size > 1 && rank.joints.gradients.sums_over_contexts(rank.at(parameter))) {
    rank.mesh.cp.sum(gradient.values, fp32);
    ran.parts = rank.where.cp_size;
  }
  return ran;
}
inline void collect_slice(Rank& rank, const std::string& parameter, Tensor gradient, Held held) {
  const Evaluation ran = sum_over_contexts(rank, parameter, gradient);
  rank.collect(parameter, gradient, held, ran);
}

// Of a parameter that every tensor-parallel rank holds whole.
inline void collect_replicated(Rank& rank, const std::string& parameter, Tensor gradient) {
  const Where where = rank.at(parameter);
  const bool contexts = rank.where.cp_size > 1 && rank.joints.gradients.sums_over_contexts(where);
  const bool sequence = rank.l.sp && rank.joints.gradients.sums_over_sequence(where);
  Evaluation ran = rank.in_fp32();
  if (contexts && sequence) {
    rank.mesh.tokens.sum(gradient.values, fp32);
  } else if (contexts) {
    rank.mesh.cp.sum(gradient.values, fp32);
  } else if (sequence) {
    rank.mesh.tp.sum(gradient.values, fp32);
  }
  if (contexts) ran.parts *= rank.where.cp_size;
  if (sequence) ran.parts *= rank.where.tp_size;
  rank.collect(parameter, gradient, Held::whole, ran);
}

}  // namespace plumb
