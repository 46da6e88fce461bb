// trace/settle.hpp: what replay says in a check, and whether it settles what twins leave open.
//
// Twins judge what has piled up. A rare rounding at a boundary moves one row further than any twin, and
// so does a fault; replay of the operation that made the tensor tells them apart. Where a promise speaks
// of every tensor, that is all. Where producers speak of some, a fault may hide in a tensor upstream of
// which nobody speaks, or of tensors that are not looked at: then the row is settled only if all that the
// tensor is made from is accounted for.
//
// TESTED   tests/trace/partial_promise_test.cpp, tests/trace/check_test.cpp
// SOURCES  twins.md V3, G2
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "trace/pairs.hpp"
#include "trace/partial_promise.hpp"
#include "trace/replay.hpp"
#include "trace/sees.hpp"
#include "trace/twins.hpp"

namespace plumb::trace {

// Replays tensors on demand, each once.
class Replays {
 public:
  using Wanted = std::function<bool(const std::string&)>;
  explicit Replays(std::function<Replayed(const Wanted&)> by) : by_(std::move(by)) {}

  // Empty where there is nothing to replay by.
  Replayed of(const Wanted& wanted);
  // Is its ratio at most 1? Empty: it cannot be replayed.
  std::optional<bool> passes(const std::string& id);
  // Those that were not replayed before, all at once: they share a level.
  void all();
  // Its ratio, where it was replayed before.
  std::optional<double> known(const std::string& id) const {
    const auto found = ratios_.find(id);
    return found == ratios_.end() ? std::nullopt : std::optional(found->second);
  }
  bool none_yet() const { return ratios_.empty(); }

 private:
  std::function<Replayed(const Wanted&)> by_;
  std::map<std::string, double> ratios_;
  bool all_ = false;
};

// Tensors that twins judged, but those that they found to differ in one row alone, and those that are mostly
// noise: nothing in them could have been found.
std::set<std::string> held_by(const TwinsJudgement& twins);

// Is a difference accounted for, where producers speak of some tensors, or some are not looked at? It is
// if there is none, if twins hold it, or if replay passes and all inputs are accounted for. What twins find
// in several rows is a finding already, and accounts for what follows.
class Accounts {
 public:
  // The node that makes a tensor; nullptr: nobody says how it was made.
  using NodeOf = std::function<const Node*(const std::string&)>;
  // `by_twins`: those that are held by twins; none where these are not asked.
  Accounts(const Pairs& pairs, NodeOf node_of, Replays& replays, std::set<std::string> by_twins)
      : pairs_(pairs),
        node_of_(std::move(node_of)),
        replays_(replays),
        by_twins_(std::move(by_twins)) {}

  bool holds(const std::string& id);

 private:
  const Pairs& pairs_;
  NodeOf node_of_;
  Replays& replays_;
  std::set<std::string> by_twins_;
  std::map<std::string, bool> known_;
};

}  // namespace plumb::trace
