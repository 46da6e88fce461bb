// model/state.hpp: what a step starts from: parameters, Adam's moments, and the data of the step.
//
// Every value depends on (seed, canonical id, element) only, so that a rank can make just its slice
// and every layout starts alike.
// TESTED   tests/model/state_test.cpp
#pragma once

#include <string_view>

#include "model/config.hpp"
#include "model/recipe.hpp"
#include "trace/trace.hpp"

namespace plumb {

// Masters drawn from the parameters' distributions, zero moments, parameters cast from the masters.
Values initial_state(const Config& config, const Recipe& recipe);

// ids, labels and mask of each micro-batch and the count of counted tokens, as leaves of the plan.
// Sequences are drawn from the text; each counts only its first 1/2 to 1 of tokens, so that
// micro-batches are unequal. Throws Failure if the text is shorter than a sequence + 1.
Values step_data(const Config& config, std::string_view text, int step);

// The @previous leaves of the next step from the outputs of this one. Throws Failure if one is
// missing or of another shape: a trace without a promise was never verified.
Values next_state(const Config& config, const Values& step);

// Casts the parameters of a state from its masters as the recipe says: a state trained with one
// recipe may start a step of another.
void cast_state(const Config& config, const Recipe& recipe, Values& state);

}  // namespace plumb
