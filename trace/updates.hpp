// trace/updates.hpp: what an optimizer made, beside that of twins. No twin judges it: a sign that turns in a gradient
// turns a whole step.
//
// COSTS    reads that tensor of each twin twice
// TESTED   tests/trace/twin_traces_test.cpp
#pragma once

#include <string>

#include "trace/difference.hpp"
#include "trace/sees.hpp"
#include "trace/twins_read.hpp"

namespace plumb::trace {

// May twins explain how far off what an optimizer made is? As a whole; its worst number, which a share that
// begins a few places too late shows; and how many of its numbers are, which a share that was never updated
// shows where signs turn in others. Ten times as far as the farthest, or as one last bit, which four twins
// may all lack. That accuses nobody. Where a twin does not have it, twins say nothing.
bool twins_explain(const Difference& seen, const TwinsRead& twins, const Run& reference,
                   const Run& candidate, const std::string& id);

}  // namespace plumb::trace
