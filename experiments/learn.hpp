// experiments/learn.hpp: learns stored spreads: how the twins of a model scatter over many batches.
#pragma once

#include <functional>
#include <string_view>

#include "experiments/sees.hpp"
#include "experiments/trial.hpp"
#include "trace/spreads.hpp"

namespace plumb::experiments {

// Draws `twins` twins of the state of `start` with other data, `batches` times; no candidate runs.
// `told(batch)` is called before each batch. Costs batches x (twins + 1) steps.
Learnt learn(const Start& start, std::string_view text, int batches, int twins,
             const std::function<void(int)>& told);

}  // namespace plumb::experiments
