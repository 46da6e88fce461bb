// trace/replay.hpp: computes each promised node again from the candidate's own inputs and judges
// its output by the local tolerance. Nothing accumulates, so the first node outside is the one to
// blame.
//
// An output that equals the promised evaluation bit by bit needs no tolerance: its ratio is 0, and
// FP64 is not asked. Only the others are computed in FP64 and held against the bound of their
// operation: on the machine and in the mode that are asked for. So an error in the evaluation
// itself is none of replay's findings: the tests of bounds/ hold evaluations against FP64 and MPFR
// (bounds/README.md).
//
// COSTS    one step; two to four more for nodes that are not bit-equal.
// TESTED   tests/trace/replay_test.cpp
// SOURCES  twins.md J1
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "bounds/machine.hpp"
#include "bounds/operation.hpp"
#include "trace/finding.hpp"
#include "trace/merge.hpp"
#include "trace/sees.hpp"
#include "trace/trace.hpp"

namespace plumb::trace {

struct ReplayOptions {
  // Whose bounds judge; absent: those of the operations alone. A card of a matrix unit speaks of
  // products alone: what runs outside of the unit is judged as if no card were given. What a card
  // refuses is not judged.
  const Machine* machine = nullptr;
  Mode mode = Mode::deterministic;  // or probabilistic
  double false_alarm = 1e-2;        // of the whole run, by the probabilistic bounds
};

struct Replayed {
  std::map<std::string, double> ratios;  // error / tolerance per output; 0 where bits are equal
  std::vector<Finding> findings;         // above 1, another shape, inputs that make nothing
  std::vector<NotJudged> not_judged;
  // Outputs within bounds that are as large as they: zeros would be, too.
  std::set<std::string> as_zeros = {};
};

// `wanted` says which outputs are looked at. Both throw Failure on the mode moments, which is no
// bound.
Replayed replay(const Graph& graph, const Merged& run,
                const std::function<bool(const std::string&)>& wanted,
                const ReplayOptions& options = {});

// The tolerance of a call that takes in numbers of a format, by a card where there is one that speaks of
// it. Outside of a matrix unit its card says nothing.
Outcome<Tolerance> tolerance_by_card(const Machine* machine, const Operation& operation,
                                     const ToleranceCall& call, const Format& input);

// One operation of a replay of `operations`, which share the level of false alarms.
void replay_one(const Node& node, std::size_t operations, const Merged& run,
                const ReplayOptions& options, Replayed& out);

}  // namespace plumb::trace
