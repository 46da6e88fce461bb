// cli/arguments.hpp: checks before the command line is parsed. The parser would take an empty value
// for none, swallow the next word in its place, and not say which verb was meant.
//
// TESTED   tests/cli/options_test.cpp
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/sees.hpp"

namespace plumb::cli {

// Each throws Failure with one sentence.
void refuse_empty_values(const std::vector<std::string>& words);
void refuse_unknown_words(const CLI::App& app, const std::vector<std::string>& words);

}  // namespace plumb::cli
