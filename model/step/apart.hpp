// model/step/apart.hpp: steps whose ranks each go on from the state that they left themselves, as
// they do in a cluster. Replicas that a bug drives apart stay apart; train_step cuts the state of
// all ranks from whole tensors, which makes replicas alike at every step.
//
// Of a healthy run both are the same, bit for bit.
//
// TESTED   tests/experiments/training_test.cpp
#pragma once

#include <vector>

#include "model/sees.hpp"
#include "model/step/train_step.hpp"

namespace plumb::model {

// Returns the state that each rank left of a step over ranks, by id. Throws Failure under ZeRO,
// where ranks keep shares.
std::vector<Values> states_apart(const Training& run, Trace step);

// The step after it. `data`: its data, as leaves.
Trace train_step_apart(const Training& run, const Values& data, const std::vector<Values>& states,
                       const Joints& joints, const Backend& backend);

}  // namespace plumb::model
