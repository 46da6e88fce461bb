// trace/order.hpp: the order of dataflow: of a promise, or of execution as a producer tells it.
//
// TESTED   tests/trace/order_test.cpp
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "trace/about.hpp"
#include "trace/finding.hpp"
#include "trace/graph.hpp"
#include "trace/sees.hpp"

namespace plumb::trace {

class DataflowOrder {
 public:
  explicit DataflowOrder(const Graph& graph);
  explicit DataflowOrder(const Abouts& about);

  // The place of a tensor. Leaves of a promise come first; what has no order comes last.
  std::size_t operator()(const std::string& id) const;
  bool knows(const std::string& id) const { return place_.contains(id); }
  // Leaves, and everything of which nobody says more, count as forward.
  Phase phase_of(const std::string& id) const;
  // Is it computed? Given are the leaves of a promise, and what a producer calls so.
  bool made(const std::string& id) const;
  bool given(const std::string& id) const { return given_.contains(id); }
  bool decides(const std::string& id) const { return decisions_.contains(id); }

 private:
  bool promised_;
  std::map<std::string, std::size_t> place_;
  std::map<std::string, Phase> phase_;
  std::set<std::string> given_, decisions_;
};

// Which of `ids` may have been made from one of `roots`, which are left out. A tensor that says
// from what it was made is made from that alone; any other may be made from all that has a smaller
// order, or where an order is missing from anything. What is given is made from nothing.
std::set<std::string> maybe_made_from(const std::set<std::string>& roots,
                                      const std::set<std::string>& ids, const Abouts& about);

// As findings are told. A file that is not there comes first, since much else is not there with it; then
// messages, which nothing upstream makes wrong: their ranks gave what they had; then the order of dataflow. That a
// run starts from other values, perhaps by the user's mistake, comes behind what is wrong with given pieces.
void put_in_order(std::vector<Finding>& findings, const DataflowOrder& order);

}  // namespace plumb::trace
