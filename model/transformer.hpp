// model/transformer.hpp: the patient: one training step of the mini Transformer over ranks.
//
// An implementation of its own of what plan() promises: other kernels, real ranks, collectives. Its
// parallel decisions come from joints and nowhere else. Deterministic in all its arguments.
// TESTED   tests/model/one_rank_test.cpp (bit for bit the executor),
// tests/experiments/catch_test.cpp (over ranks)
#pragma once

#include "kernels/backend.hpp"
#include "model/joints/joints.hpp"
#include "model/leftovers.hpp"
#include "model/training.hpp"
#include "trace/trace.hpp"
#include "world/world.hpp"

namespace plumb {

// Computes one step from the leaves (state and data, as in plan) on layout.world_size() ranks.
// Returns the trace with its promise, if the run is traced; where each process has one rank, rank 0
// gets the whole.
// `leftovers`, one a rank: what the step before left; this step's at the end; none: a first step.
// Throws Failure if the layout does not divide the model.
Trace train_step(const Training& run, const Values& leaves, const Joints& joints,
                 const Backend& backend, World& world = threads(),
                 std::vector<Leftovers>* leftovers = nullptr);

// The same as one device's trace, computed by executing the promise: the reference.
Trace reference_trace(const Training& run, Values values);

// What a manifest says of a run, and back. Throws Failure if a setting is missing or makes no
// model.
Manifest manifest_of(const Training& run);
Training run_from(const Manifest& manifest);

}  // namespace plumb
