// cli/pipeline.hpp: `plumb dry` of a layout with stages: how long ranks wait in a step, and how much
// of a check of the step before fits into that.
//
// TESTED   tests/cli/dry_test.cpp
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/sees.hpp"
#include "model/estimate/bubbles.hpp"
#include "model/spec/layout.hpp"

namespace plumb::cli {

// A check as work for ranks that wait, and what tasks of the pipeline cost.
struct CheckPieces {
  double steps = 0;  // that it costs, of one device; 0: as the committed rows of step-cost say
  std::string piece = "operation";
  TaskCosts tasks;

  void add_to(CLI::App& verb);
  // Throws Failure if any of these is given and ranks have no one to wait for.
  void refuse_odd(const CLI::App& verb, const Layout& layout) const;
};

// `layout` has stages.
nlohmann::json pipeline_of(const Config& config, const Layout& layout, const CheckPieces& check);
void tell_pipeline(const nlohmann::json& pipeline);

}  // namespace plumb::cli
