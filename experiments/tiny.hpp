// experiments/tiny.hpp: the models of questions that train for thousands of steps, and what these read
// of each step.
#pragma once

#include <string>

#include "experiments/sees.hpp"
#include "model/spec/config.hpp"
#include "trace/trace.hpp"

namespace plumb::experiments {

// 2 layers, d = 32, 4 micro-batches of 4 sequences of 16 tokens: thousands of steps in a minute.
Config tiny_model(const std::string& family);

// The first number of the tensor of that id, as the first rank has it that recorded one. Throws
// Failure if none did.
double number_in(const Trace& step, const std::string& id);

}  // namespace plumb::experiments
