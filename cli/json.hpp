// cli/json.hpp: documents for programs. One JSON object each, whose "schema" says which fields it has
// (docs/reading-a-report.md).
//
// TESTED   tests/cli/json_test.cpp
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/sees.hpp"
#include "trace/finding.hpp"

namespace plumb::cli {

void add_json(CLI::App& verb, bool& asked);

// Prints `fields` and their schema.
void print_document(const std::string& schema, nlohmann::json fields);

nlohmann::json json_of(const std::vector<Finding>& findings);

}  // namespace plumb::cli
