// model/verify.hpp: checks that a trace from a disk is what its own settings make of it.
//
// A trace is untrusted, and its promise is executed. So the promise must be, node by node, what
// plan() makes of the manifest's settings, and its leaves must have the shapes and ids of that
// model.
//
// TESTED   tests/cli/verbs_test.cpp
#pragma once

#include "trace/merge.hpp"

namespace plumb {

// Throws Failure with one sentence if it is not.
void verify(const Trace& trace, const Merged& merged);

}  // namespace plumb
