// experiments/training.hpp: many steps: trained weights are made by the executor, the last step is
// what a candidate repeats over ranks.
#pragma once

#include <functional>
#include <string_view>

#include "experiments/trial.hpp"

namespace plumb {

// The start of step `steps`, after steps - 1 steps of the reference from `start`. The learning rate
// warms up to start's and falls along a cosine; one step keeps it. `told(step, loss)` is called
// after each.
Start trained(Start start, std::string_view text, int steps,
              const std::function<void(int, double)>& told);

}  // namespace plumb
