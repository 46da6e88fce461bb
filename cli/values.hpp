// cli/values.hpp: checks of option values, made while the command line is parsed, so before any
// work.
//
// TESTED   tests/cli/options_test.cpp
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>

#include "cli/sees.hpp"
#include "model/spec/config.hpp"

namespace plumb::cli {

CLI::Validator whole_numbers(std::uint64_t least, std::uint64_t most);
// A word that is no number, or a number in this range.
CLI::Validator numbers_or_traces(std::uint64_t least, std::uint64_t most);
// Are there digits and nothing else?
bool is_number(const std::string& text);
// A fraction with its point, as 0.1; becomes the whole number that `size` keeps of it.
CLI::Validator fractions(const Size& size);
CLI::Validator numbers(double least, double most);
// Accepts a report of a known suffix in a folder that can be written.
CLI::Validator report_files();
// Accepts a name for a new trace, in a place that can be written.
CLI::Validator new_traces();
// The same, for a file .csv.
CLI::Validator new_curves();
// The same, for a file .json.
CLI::Validator new_cards();

}  // namespace plumb::cli
