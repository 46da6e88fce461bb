// model/plan/verify.hpp: checks that a trace from a disk is what its own settings make of it.
//
// A trace is untrusted, and its promise is executed. So the promise must be, node by node, what
// plan() makes of the manifest's settings, and its leaves must have the shapes and ids of that
// model. State of layers that no rank has, and what follows from it, is no refusal but a finding.
//
// TESTED   tests/cli/verbs_test.cpp
#pragma once

#include <string>
#include <vector>

#include "model/sees.hpp"
#include "trace/merge.hpp"

namespace plumb::model {

// Throws Failure with one sentence if it is not.
void verify(const Trace& trace, const Merged& merged);

// Sentences on what the layout in a manifest claims and no trace can show, since it moves no bit.
// None for the manifest of another program.
std::vector<std::string> unseen_claims(const Manifest& manifest);

// The trace made whole; its findings also say where a rank does not hold what its layout gives it
// (plan/shards.hpp), and what is promised and on no rank. A trace without a promise is merged as it is. Throws Failure as `verify` does.
Merged merge_verified(const Trace& trace);

}  // namespace plumb::model
