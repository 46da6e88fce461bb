// trace/store/spreads_file.hpp: stored spreads on disk, and the run that they are of.
//
// One JSON object: schema plumb-spreads/1, settings, step, batches, twins, and per tensor and
// statistic [sum of variances, count].
//
// TESTED   tests/trace/spreads_file_test.cpp
#pragma once

#include <filesystem>

#include "trace/sees.hpp"
#include "trace/spreads.hpp"
#include "trace/trace.hpp"

namespace plumb::trace {

struct StoredSpreads {
  Manifest of;  // of a run that they were learnt around
  int batches = 0, twins = 0;
  Learnt learnt;
};

// Throws Failure if the file exists already or cannot be written.
void write_spreads(const StoredSpreads& spreads, const std::filesystem::path& file);

// Throws Failure with one sentence on anything else than such a file.
StoredSpreads read_spreads(const std::filesystem::path& file);

// Throws Failure if the candidate is of another model, recipe or layout (seed and rate may differ).
void refuse_other_run(const StoredSpreads& spreads, const Manifest& candidate);

}  // namespace plumb::trace
