// model/layers/gradients.hpp: a micro-batch's gradients of parameters, summed over the ranks that
// each have some of its tokens.
//
// Every context-parallel rank has its tokens' part. For a parameter that every tensor-parallel rank
// holds whole, sequence-parallel ranks have only their slice's part; for one that all heads share,
// ranks have only their heads'. Parts are summed in FP32. Gradients of frozen parameters are left.
//
// TESTED   tests/model/one_rank_test.cpp, tests/trace/replay_test.cpp
#pragma once

#include "model/joints/gradients.hpp"
#include "model/rank/rank.hpp"
#include "model/sees.hpp"

namespace plumb::model {

// Sums the gradient of a slice of a parameter, or of one that all tensor-parallel ranks make alike.
// Returns how it was summed.
inline Evaluation sum_over_contexts(Rank& rank, const std::string& parameter, Tensor& gradient) {
  Evaluation ran = rank.in_fp32();
  if (rank.where.cp_size > 1 && rank.joints.gradients.sums_over_contexts(rank.at(parameter))) {
    rank.mesh.cp.sum(gradient.values, fp32);
    ran.parts = rank.where.cp_size;
  }
  return ran;
}
inline void collect_slice(Rank& rank, const std::string& parameter, Tensor gradient,
                          Sharding sharding) {
  if (is_frozen(rank.c, parameter)) return;
  const Evaluation ran = sum_over_contexts(rank, parameter, gradient);
  rank.collect(parameter, std::move(gradient), sharding, ran);
}

// Collects a parameter that every tensor-parallel rank holds whole and has a part of, from its own
// tokens or heads.
inline void collect_parts(Rank& rank, const std::string& parameter, Tensor gradient, bool over_tp) {
  if (is_frozen(rank.c, parameter)) return;
  const bool contexts =
      rank.where.cp_size > 1 && rank.joints.gradients.sums_over_contexts(rank.at(parameter));
  Evaluation ran = rank.in_fp32();
  if (contexts && over_tp) {
    rank.mesh.tokens.sum(gradient.values, fp32);
  } else if (contexts) {
    rank.mesh.cp.sum(gradient.values, fp32);
  } else if (over_tp) {
    rank.mesh.tp.sum(gradient.values, fp32);
  }
  if (contexts) ran.parts *= rank.where.cp_size;
  if (over_tp) ran.parts *= rank.where.tp_size;
  rank.collect(parameter, std::move(gradient), Sharding::whole, ran);
}

// Collects one whose every token every tensor-parallel rank sees, but for sequence parallelism.
inline void collect_replicated(Rank& rank, const std::string& parameter, Tensor gradient) {
  collect_parts(rank, parameter, std::move(gradient),
                rank.joints.gradients.sums_over_sequence(rank.at(parameter), rank.l.sp));
}

// Collects one that all heads share.
inline void collect_shared_by_heads(Rank& rank, const std::string& parameter, Tensor gradient) {
  collect_parts(
      rank, parameter, std::move(gradient),
      rank.where.tp_size > 1 && rank.joints.gradients.sums_over_heads(rank.at(parameter)));
}

}  // namespace plumb::model
