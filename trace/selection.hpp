// trace/selection.hpp: which tensors are looked at, and in which order.
//
// TESTED   tests/trace/selection_test.cpp
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "trace/graph.hpp"
#include "trace/sees.hpp"

namespace re2 {
class RE2;
}

namespace plumb::trace {

// A user's regular expression, in RE2: time linear in the text whatever the expression is, and no
// recursion, so that it can neither hang nor overflow. No text matches nothing.
class Pattern {
 public:
  // Throws Failure, naming the option, if `text` is not a regular expression.
  Pattern(const std::string& text, const std::string& option);
  bool empty() const { return expression_ == nullptr; }
  bool matches(const std::string& id) const;  // anywhere in it

 private:
  static constexpr std::int64_t most_memory = std::int64_t(8) << 20;
  std::shared_ptr<const re2::RE2> expression_;
};

// Ids chosen by --only and --skip. Throws Failure if one is not a regular expression.
class Selection {
 public:
  Selection(const std::string& only, const std::string& skip)
      : only_(only, "--only"), skip_(skip, "--skip") {}
  bool operator()(const std::string& id) const {
    return (only_.empty() || only_.matches(id)) && !skip_.matches(id);
  }

 private:
  Pattern only_, skip_;
};

// The position of each output in dataflow order; leaves come first.
class DataflowOrder {
 public:
  explicit DataflowOrder(const Graph& graph) {
    for (const Node& node : graph.nodes) {
      for (const std::string& id : node.outputs) {
        place_.emplace(id, Place{place_.size() + 1, node.phase});
      }
    }
  }
  std::size_t operator()(const std::string& id) const {
    const auto found = place_.find(id);
    return found == place_.end() ? 0 : found->second.number;
  }
  // Leaves, and everything where there is no promise, count as forward.
  Phase phase_of(const std::string& id) const {
    const auto found = place_.find(id);
    return found == place_.end() ? Phase::forward : found->second.phase;
  }
  bool made(const std::string& id) const { return place_.contains(id); }

 private:
  struct Place {
    std::size_t number;
    Phase phase;
  };
  std::map<std::string, Place> place_;
};

}  // namespace plumb::trace
