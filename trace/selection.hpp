// trace/selection.hpp: which tensors are looked at, and in which order.
#pragma once

#include <map>
#include <regex>
#include <string>

#include "trace/graph.hpp"

namespace plumb {

// Ids chosen by --only and --skip. Throws Failure if an expression is not a regular expression.
class Selection {
 public:
  Selection(const std::string& only, const std::string& skip)
      : only_(compiled(only, "--only")),
        skip_(compiled(skip, "--skip")),
        all_(only.empty()),
        none_skipped_(skip.empty()) {}
  bool operator()(const std::string& id) const {
    return (all_ || std::regex_search(id, only_)) &&
           (none_skipped_ || !std::regex_search(id, skip_));
  }
  static std::regex compiled(const std::string& text, const std::string& option) {
    try {
      return std::regex(text, std::regex::ECMAScript | std::regex::optimize);
    } catch (const std::regex_error&) {
      throw Failure(option + " '" + text + "' is not a regular expression; mend it or quote it");
    }
  }

 private:
  std::regex only_, skip_;
  bool all_, none_skipped_;
};

// Position of each output in dataflow order; leaves come first.
class Order {
 public:
  explicit Order(const Graph& graph) {
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

}  // namespace plumb
