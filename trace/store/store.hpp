// trace/store/store.hpp: a trace as a folder.
//
//   TRACE/manifest.json                          written last: without it a trace is incomplete
//   TRACE/graph.json                             the promise, if there is one
//   TRACE/step_000001/ran.json                   what each rank executed
//   TRACE/step_000001/rank_00000.safetensors     one file per rank
//
// A trace is written beside its final place, to a folder that this process made, and moved there
// when it is whole. Once write_trace has returned, no crash takes the trace away; one that crashed
// before is not there, and what it wrote lies beside its place (unfinished.hpp).
// A run whose every step is traced is a folder of traces: RUN/step_000001 is a TRACE, and so on.
//
// TESTED   tests/trace/store_test.cpp
#pragma once

#include <filesystem>
#include <map>

#include "trace/placements/suggest.hpp"
#include "trace/sees.hpp"
#include "trace/store/overrides.hpp"
#include "trace/trace.hpp"

namespace plumb::trace {

// Throws Failure unless a new trace may be written to `folder`: asked before hours of computing.
void check_new(const std::filesystem::path& folder);

// Throws Failure if `folder` exists already or cannot be written; then nothing is left behind.
void write_trace(const Trace& trace, const std::filesystem::path& folder);

// Throws Failure with one sentence on anything that is not a complete trace, and on overrides of a
// trace of version 1.
Trace read_trace(const std::filesystem::path& folder, const Overrides& overrides = {});

// The same of version 2 alone, as its files hold it.
AsHeld read_as_held(const std::filesystem::path& folder, const Overrides& overrides = {});

// The place of a step's trace within a run whose every step is traced.
std::filesystem::path trace_of_step(const std::filesystem::path& run, int step);
// The traces of such a run, by step; empty for anything else.
std::map<int, std::filesystem::path> traces_of(const std::filesystem::path& run);

// A rank's record as bytes and back: ranks without common memory bring a trace together so. Throws
// Failure on other bytes.
std::string bytes_of(const RankRecord& record);
RankRecord record_from(const std::string& bytes);

}  // namespace plumb::trace
