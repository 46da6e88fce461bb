// cli/known.hpp: the values that an option or argument of a verb is known to take.
//
// TESTED   tests/cli/completion_test.cpp
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/sees.hpp"

namespace plumb::cli {

// In the order of their catalogue; empty: it takes a file, a number, or anything.
std::vector<std::string> known_values(const CLI::App& verb, const CLI::Option& option);

// "--only" or "-o" of an option, "TRACE" of an argument.
std::vector<std::string> names_of(const CLI::Option& option);
bool takes_value(const CLI::Option& option);
// In the order in which they are typed.
std::vector<const CLI::Option*> arguments_of(const CLI::App& verb);
// In the order in which --help lists them.
std::vector<const CLI::App*> verbs_of(const CLI::App& app);

}  // namespace plumb::cli
