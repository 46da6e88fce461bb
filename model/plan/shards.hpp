// model/plan/shards.hpp: which rank holds which part of each tensor, as the layout promises it.
//
//   (configuration, layout, graph) -> for each rank, by id: where its shard lies in the whole
//
// A run's own records are held against it (trace/shards.hpp): a rank that lacks its part, holds
// another one, or does not say how it computed it, is a finding. So nothing is judged as whole that
// only some replicas vouch for. It has never heard of joints or of ranks that run.
// TESTED   tests/model/shards_test.cpp: what healthy runs record, in every kind of layout
#pragma once

#include "model/sees.hpp"
#include "model/spec/training.hpp"
#include "trace/shards.hpp"

namespace plumb::model {

// `values`: whole tensors of the run. Their shapes are taken from it, and which copies of tokens an
// expert takes; ids that it lacks are left out. Costs a pass over the ids of each rank.
Shards promised_shards(const Training& run, const Graph& graph, const Values& values);

}  // namespace plumb::model
