// trace/decisions.hpp: choices, which two sound runs may make differently.
//
// The choice of a token's experts is not continuous in the logits: where two of them are nearly
// equal, a rounding decides, and everything after differs by more than rounding. So a reference,
// and with it its twins, is held against a candidate as if it had chosen as the candidate did
// (twins.md F2). That excuses no wrong choice: replay asks of each whether it follows from the
// candidate's own logits, with no tolerance at all; and the logits are judged as any tensor.
//
// TESTED   tests/trace/decisions_test.cpp
#pragma once

#include <set>

#include "trace/merge.hpp"
#include "trace/sees.hpp"

namespace plumb::trace {

bool is_decision(const Node& node);

struct Forced {
  Values values;              // the reference's, given the candidate's choices
  std::size_t rows = 0;       // tokens for which the reference would then choose otherwise
  std::size_t decisions = 0;  // out of so many tokens
  bool differ = false;        // has the candidate any choice otherwise?
};

// Puts the candidate's choices in place of the reference's, where their shapes agree. Costs what
// lies downstream of the first choice that differs; nothing where none does.
Forced forced(const Graph& reference_graph, const Values& reference, const Values& candidate);

// The choices that were made, as outputs for replay.
std::set<std::string> decisions_of(const Graph& graph);

}  // namespace plumb::trace
