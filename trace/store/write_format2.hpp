// trace/store/write_format2.hpp: a trace of plumb's own as any program would write it: version 2 of the
// format (docs/trace-format.md). What the promise knows is told in words that a producer has: roles,
// the order of execution, phases, what a tensor is made from and by which operation.
//
// CLAIM    Reading it gives the values, placements and formats of the trace, and said_by() its promise.
// ASSUMES  The shards lie in memory; the promise, not the run, says how sums are split: what is told of
//          two runs of one layout is the same, whatever they did.
// REFUSES  a folder that exists or cannot be written (Failure); then nothing is left behind
// COSTS    the trace once, beside it the header of one rank
// TESTED   tests/trace/write_format2_test.cpp
#pragma once

#include <filesystem>

#include "trace/sees.hpp"
#include "trace/trace.hpp"

namespace plumb::trace {

// What a promise says of single tensors. `made_by` is absent where its fields cannot say how the sum
// is split: over tokens, over groups of experts, or by chance.
Abouts said_by(const Graph& graph);

// Writes the trace with what its `about` says, without its promise. The layout is set apart as what may
// differ, and so is `twin`, its number among twins; 0: it is none.
void write_format2(const Trace& trace, const std::filesystem::path& folder, int twin = 0);

}  // namespace plumb::trace
