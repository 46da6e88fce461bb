// model/step/train_step.hpp: one training step of the mini Transformer over ranks. It is the run
// that is judged.
//
// It is an implementation of its own of what plan() promises: other code for every module, real
// ranks, collectives. Products and formats' rounding are shared with the promise
// (kernels/README.md). Its parallel decisions come from joints and nowhere else. Deterministic in
// all its arguments.
//
// TESTED   tests/model/one_rank_test.cpp (bit for bit the executor),
//          tests/experiments/catch_test.cpp (over ranks)
#pragma once

#include "kernels/backend.hpp"
#include "model/joints/joints.hpp"
#include "model/rank/stale_gradients.hpp"
#include "model/rank/waits.hpp"
#include "model/sees.hpp"
#include "model/spec/training.hpp"
#include "trace/trace.hpp"
#include "world/world.hpp"

namespace plumb::model {

// Computes one step from the leaves (state and data, as in plan) on layout.world_size() ranks.
// Returns the trace with its promise, if the run is traced; where each process has one rank, rank 0
// gets the whole.
// `stale`, one a rank: of the step before, and at the end of this step; none: a first step.
// `waits`, one a rank: for neighbours in the pipeline, and what is done meanwhile; none: no matter.
// Throws Failure if the layout does not divide the model.
Trace train_step(const Training& run, const Values& leaves, const Joints& joints,
                 const Backend& backend, World& world = threads(),
                 std::vector<StaleGradients>* stale = nullptr, std::vector<Waits>* waits = nullptr);

}  // namespace plumb::model
