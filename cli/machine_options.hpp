// cli/machine_options.hpp: whose bounds, and of which kind: options that bound, replay and check
// share.
//
// TESTED   tests/trace/replay_test.cpp, tests/cli/options_test.cpp
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "bounds/machine.hpp"
#include "bounds/multiply.hpp"
#include "bounds/operation.hpp"
#include "cli/sees.hpp"
#include "trace/replay.hpp"

namespace plumb::cli {

struct MachineOptions {
  std::string machine = "ieee", mode = "deterministic";

  // Adds --machine and --mode; `modes` lists those that the verb takes.
  void add_to(CLI::App& verb, const std::string& modes);
};

// How the machine multiplies numbers of BF16, if by the steps of a matrix unit, one after the other;
// else nullptr. For twins of its runs.
const Multiply* multiply_on(const Machine& machine);

// What replay is to judge by. Throws Failure on a name that is not known.
ReplayOptions replay_options(const MachineOptions& on, double false_alarm);

// A card of the program, or of a file: a name that has a / or ends in .json. Throw Failure, listing
// the known, on another name, and with one sentence on a wrong card.
const Machine& machine_from(const std::string& id);
Mode mode_from(const std::string& name);

}  // namespace plumb::cli
