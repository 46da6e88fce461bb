// trace/judge/named.hpp: machines, modes and formats by the names that users give.
//
// REFUSES  each function throws Failure, with what is known or was probably meant
// TESTED   tests/cli/options_test.cpp, tests/cli/judge_files_test.cpp, tests/c/calls_test.cpp
#pragma once

#include <string>

#include "bounds/machine.hpp"
#include "bounds/operation.hpp"
#include "trace/sees.hpp"

namespace plumb::trace {

std::vector<std::string> machine_ids();
// A card of the program, or of a file, which is read: a name that has a / or ends in .json.
Machine machine_named(const std::string& name);
// Is it the name of a file?
bool is_card_file(const std::string& name);

Mode mode_named(const std::string& name);
// A format that a result can have: all but fp64.
const Format& format_named(const std::string& name);

}  // namespace plumb::trace
