// experiments/small.hpp: the models of questions that ask for many runs: four layers, 64 wide, and
// their weights after 600 steps.
#pragma once

#include <string>

#include "experiments/experiment.hpp"

namespace plumb::experiments {

// 4 layers, d = 64, 4 micro-batches of 8 sequences of 32 tokens.
Config small_model(const std::string& family);

// The state of such a config after so many steps in bf16: read, or made and kept, once a process.
// Throws Failure if what is kept under its name is of another model.
const Trace& trained_once(const Config& config, int steps, const Effort& effort);

// The state after 600 steps of a family in bf16; recipes cast it.
const Trace& trained_small(const std::string& family, const Effort& effort);
// The small model with the choices that `of` has: an extra head, norms of queries and keys ...
Config small_model_like(const Config& of);
// The same of that model.
const Trace& trained_small(const Config& of, const Effort& effort);
inline constexpr std::string_view trained_small_states =
    "of the same small models: seed 1, 600 steps of 32 sequences of 32, bf16";

// The start of a run on random weights or on those, by the word that rows have for it.
Start small_start(const Config& config, const Recipe& recipe, const Layout& layout,
                  const std::string& weights, const Effort& effort);

}  // namespace plumb::experiments
