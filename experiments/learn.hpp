// experiments/learn.hpp: how the twins of a model scatter, from many batches: stored spreads.
#pragma once

#include <functional>
#include <string_view>

#include "experiments/trial.hpp"
#include "trace/spreads.hpp"

namespace plumb {

// The state of `start` with other data, `batches` times, `twins` twins each; no candidate is run.
// `told(batch)` is called before each. Costs batches x (twins + 1) steps.
Learnt learn(const Start& start, std::string_view text, int batches, int twins,
             const std::function<void(int)>& told);

}  // namespace plumb
