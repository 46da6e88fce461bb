// trace/replay.hpp: computes each promised node again from the candidate's own inputs and judges
// its output by the local tolerance. Nothing accumulates, so the first node outside is the one to
// blame.
//
// An output that equals the promised evaluation bit by bit needs no tolerance: its ratio is 0, and
// FP64 is not asked. Only the others are computed in FP64 and held against the deterministic bound
// of their operation. So an error in the evaluation itself is none of replay's findings: the tests
// of bounds/ hold evaluations against FP64 and MPFR (bounds/README.md).
//
// COSTS    one step; two to four more for nodes that are not bit-equal.
// TESTED   tests/trace/replay_test.cpp
// SOURCES  twins.md J1
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "trace/finding.hpp"
#include "trace/sees.hpp"
#include "trace/trace.hpp"

namespace plumb::trace {

struct Replayed {
  std::map<std::string, double> ratios;  // error / tolerance per output; 0 where bits are equal
  std::vector<Finding> findings;         // ratio above 1 or another shape, in dataflow order
  std::vector<std::string> not_judged;   // "id: reason"
};

// `wanted` says which outputs are looked at.
Replayed replay(const Graph& graph, const Values& values,
                const std::function<bool(const std::string&)>& wanted);

}  // namespace plumb::trace
