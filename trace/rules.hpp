// trace/rules.hpp: the rules of a check by name, and what each needs. Every refusal is a Failure of one
// sentence that says what to do.
//
// TESTED   tests/trace/check_test.cpp, tests/trace/twin_traces_test.cpp, tests/cli/foreign_test.cpp
#pragma once

#include <string>
#include <vector>

#include "trace/check.hpp"
#include "trace/order.hpp"
#include "trace/pairs.hpp"
#include "trace/sees.hpp"
#include "trace/selection.hpp"

namespace plumb::trace {

// The names of all rules.
std::vector<std::string> all_rules();
bool asks_for(const CheckOptions& options, const std::string& rule);
// Throws Failure, listing the known, on a name that is none of them.
void refuse_unknown_rules(const std::vector<std::string>& rules);

// A run of which nothing is whole, or nothing is selected, is refused.
void refuse_nothing_to_judge(const Run& candidate, const Selection& select);

// Is there something in two runs without a promise that replay may judge? Tensors of which the producer
// says how they were made, what ranks sent, what a loss hands on, gradients before and behind a clip.
bool replay_has_ground(const Trace& reference, const Trace& candidate);

// Twins and replay need a promise of both runs, or what stands in for it: twins that are given, and
// ground for replay.
void refuse_rules_without_ground(const Trace& reference, const Trace& candidate,
                                 const CheckOptions& options);

// The run that says how much a perturbed input moves each tensor has the reference's state and data,
// but not its bits.
void refuse_no_perturbed(const Run& reference, const Pairs& pairs, const DataflowOrder& order,
                         const CheckOptions& options);

}  // namespace plumb::trace
