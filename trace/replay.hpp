// trace/replay.hpp: computes each promised node again from the candidate's own inputs and judges
// its output by the local tolerance. Nothing accumulates, so the first node outside is the one to
// blame.
//
// An output that equals the promised evaluation bit by bit needs no tolerance; only the others are
// computed in FP64 and held against the deterministic bound of their operation.
// COSTS    one step; two to four more for nodes that are not bit-equal.
// TESTED   tests/trace/replay_test.cpp
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "trace/finding.hpp"
#include "trace/trace.hpp"

namespace plumb {

struct Replayed {
  std::map<std::string, double> ratios;  // error / tolerance per output; 0 where bits are equal
  std::vector<Finding> findings;         // ratio above 1 or another shape, in dataflow order
  std::vector<std::string> not_judged;   // "id: reason"
};

// `wanted` says which outputs are looked at. Progress is told through `progress(done, all)`.
Replayed replay(const Graph& graph, const Values& values,
                const std::function<bool(const std::string&)>& wanted);

}  // namespace plumb
