// experiments/crash/saved.hpp: what this program saves, each with who writes and who reads it: the
// shipped writers and readers, on results that are small.
//
// TESTED   tests/experiments/crash_test.cpp
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "experiments/sees.hpp"

namespace plumb::experiments {

// A result as it is found: its bytes, or the sentence with which it is refused.
struct Found {
  std::string bytes;
  std::string refused = {};
};

struct Saved {
  std::string name;
  // Writes every result below a folder that is there, or goes on with what it finds. Calls `kept`
  // with a result's name as soon as a user may rely on it. Throws Failure where a user would read
  // the sentence. Writes the same bytes each time.
  using Kept = std::function<void(const std::string& result)>;
  std::function<void(const std::filesystem::path& folder, const Kept& kept)> write;
  // Results that are found below the folder, by name. What is not there is left out.
  std::function<std::map<std::string, Found>(const std::filesystem::path& folder)> read;
};

// trace    two ranks' trace of a step, of a run of two steps; folders above it are made, too
// job      the same of a whole promise, verified as check does
// state    a trained state that is made once and kept in a cache
// spreads  a file of stored spreads
// bounds   a file of bounds, written in pieces at several places
// rows     a table of results with its provenance and rates, saved after every row
// answers  what a device has answered, then its card; the answers go
std::vector<Saved> all_saved();

// Every file below a folder with its bytes; folders, which end with a slash, without.
std::map<std::string, std::string> files_below(const std::filesystem::path& folder);

}  // namespace plumb::experiments
