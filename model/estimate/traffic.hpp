// model/estimate/traffic.hpp: the tensors that one rank would hold and send in a step, from shapes
// alone: nothing is computed, so layouts of thousands of ranks are planned in no time.
//
// Elements are those of the rank's own tensor in a call: its summand, its part of a gathering or
// exchange, its message. Calls of a single number (norms, scales, losses) are left out. How many
// copies go to experts of other ranks depends on the data: as many as an even choice would send.
//
// TESTED   tests/model/traffic_test.cpp: counted while small runs go on
#pragma once

#include <string>
#include <vector>

#include "model/sees.hpp"
#include "model/spec/config.hpp"
#include "model/spec/layout.hpp"
#include "model/spec/recipe.hpp"

namespace plumb::model {

struct Travel {
  std::string what;  // the module, or the part of the step
  std::string axis;  // whose group: tp, cp, dp, pp, tokens (tp x cp), ep, expert_copies
  std::string how;   // sum, max, gather, exchange or send
  Format format;     // in which a number travels
  double calls, elements;
};

// Returns the messages of rank `rank` in a step. Throws Failure where the layout does not divide
// the model.
std::vector<Travel> traffic(const Config& config, const Recipe& recipe, const Layout& layout,
                            int rank);

// How many numbers a rank keeps between steps and during one.
struct Holdings {
  double parameters = 0;            // as computed with
  double gradients = 0;             // FP32, after reduction
  double masters = 0, moments = 0;  // of the optimizer; both moments counted
};
Holdings holdings(const Config& config, const Recipe& recipe, const Layout& layout, int rank);

}  // namespace plumb::model
