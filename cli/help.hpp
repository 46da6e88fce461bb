// cli/help.hpp: what --help shows beside the options: an example of each verb.
//
// TESTED   tests/readme/readme_test.cpp (each example is run)
#pragma once

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/sees.hpp"

namespace plumb::cli {

// For the program, before verbs are added to it. Options say what they need, but not what they do
// not go with: of forty options --resync excludes twenty-five, and each would say so.
std::shared_ptr<CLI::Formatter> help_format();

// Ends the help of each verb with an example, and that of the program with all of them, in an order
// in which they can be run one after the other. For the program, after verbs are added to it.
void give_examples(CLI::App& app);

}  // namespace plumb::cli
