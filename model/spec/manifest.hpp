// model/spec/manifest.hpp: a run's settings as the manifest of its trace says them, and back.
//
// TESTED   tests/experiments/settings_test.cpp, tests/cli/verbs_test.cpp
#pragma once

#include <string>
#include <string_view>

#include "model/sees.hpp"
#include "model/spec/training.hpp"
#include "trace/trace.hpp"

namespace plumb::model {

// Writes and reads a run's manifest. Throws Failure if a setting is missing or makes no model.
Manifest manifest_of(const Training& run);
Training run_from(const Manifest& manifest);

// Names how a run is rewritten, as manifests and options do; "none" if it is not.
std::string_view name_of(Rewriting how);
// Throws Failure on another word.
Rewriting rewriting_from(const std::string& word);

}  // namespace plumb::model
