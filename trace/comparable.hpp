// trace/comparable.hpp: may these two traces be held against each other, and is the one a
// reference?
//
// TESTED   tests/model/attacks_test.cpp, tests/cli/verbs_test.cpp
#pragma once

#include <string>
#include <vector>

#include "trace/merge.hpp"
#include "trace/sees.hpp"

namespace plumb::trace {

// Throws Failure unless both are of one step and one configuration: every setting of their
// manifests is the same but for how they are spread over ranks and in which order products add.
void refuse_another_run(const Manifest& reference, const Manifest& candidate);

// What is judged against a reference that is none would be judged by nothing. So it has to be whole
// and finite, and to hold what each operation that it promises makes of its inputs.
// Throws Failure if it does not. COSTS one step where it carries a promise.
void refuse_bad_reference(const Trace& reference, const Merged& merged);

// What a reader of a verdict should know of the two traces.
struct Alike {
  bool identical = false;          // one layout and equal bits: as a trace and itself
  std::vector<std::string> notes;  // sentences: equal bits, swapped, no promise
};
Alike alike(const Trace& reference, const Values& of_reference, const Trace& candidate,
            const Merged& of_candidate);

}  // namespace plumb::trace
