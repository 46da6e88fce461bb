// model/run/training.hpp: many steps. The executor makes trained weights; a candidate repeats the
// last step over ranks.
//
// TESTED   tests/experiments/training_test.cpp
#pragma once

#include <functional>
#include <string_view>

#include "model/run/start.hpp"
#include "model/sees.hpp"

namespace plumb::model {

using Step = std::function<Values(const Start&)>;
// Goes from `start` through so many steps, each from the state that `step` made of the one before;
// the learning rate warms up to start's and falls along a cosine; one step alone keeps it.
void go_through(Start start, std::string_view text, int steps, const Step& step);

// Returns the start of a trace's step, to be run in `layout`. Throws Failure if the trace has no
// promise or the layout does not divide its model.
Start start_from(const Trace& trace, const Merged& merged, const Layout& layout);

// The start of step `steps`, after steps - 1 steps of the reference from `start`.
// `told(step, loss)` is called after each.
Start trained(Start start, std::string_view text, int steps,
              const std::function<void(int, double)>& told);

}  // namespace plumb::model
