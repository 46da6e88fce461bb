// model/state/state.hpp: the start of a step: parameters, Adam's moments, scales and histories, and
// the data of the step.
//
// Every value depends on (seed, canonical id, element) only, so that a rank can make just its slice
// and every layout starts alike.
//
// TESTED   tests/model/state_test.cpp
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/sees.hpp"
#include "model/spec/config.hpp"
#include "model/spec/recipe.hpp"
#include "trace/trace.hpp"

namespace plumb::model {

// One tensor that a step leaves to the next: its output is `id`, its leaf is id + "@previous".
struct StateEntry {
  std::string id;
  int rows, cols;
  Format format;
  std::string parameter;  // the parameter that it belongs to; empty: to the whole model
  bool like_it;           // it has that parameter's shape, and is sliced as it is
};
// Returns all of them: for each parameter /param, and unless it is frozen /master (where the recipe
// has masters), /exp_avg and /exp_avg_sq; loss_scale/scale and /growth under a dynamic loss scale; .../operand_history and
// .../grad_operand_history under delayed scaling; layers.N.mlp.router/bias where a bias balances
// experts.
std::vector<StateEntry> state_entries(const Config& config, const Recipe& recipe);

// Returns masters drawn from the parameters' distributions, zero moments and histories, parameters
// cast from the masters, a loss scale of 2^16.
Values initial_state(const Config& config, const Recipe& recipe);

// Returns, as leaves of the plan, ids, labels and mask of each micro-batch and the count of counted
// tokens; where sequences are packed, also the position of each token within its document, each of
// which comes from another place of the text.
// Sequences are drawn from the text. Each counts only its first 1/2 to 1 of tokens, so that
// micro-batches are unequal. An extra prediction head also gets mtp_labels, the tokens after the
// labels, mtp_mask, which has one less of each sequence, and their count. Throws Failure if the
// text is shorter than a sequence + 1.
Values step_data(const Config& config, std::string_view text, int step);

// Returns the @previous leaves of the next step from the outputs of this one. Throws Failure if one
// is missing or of another shape: a trace without a promise was never verified.
Values next_state(const Config& config, const Recipe& recipe, const Values& step);

// Turns a state trained with any recipe into one of `recipe`: an entry that the state lacks is made
// from the others (masters are the parameters) or begins anew; entries that `recipe` lacks are
// dropped, and all are cast.
void cast_state(const Config& config, const Recipe& recipe, Values& state);

}  // namespace plumb::model
