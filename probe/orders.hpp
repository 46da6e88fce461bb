// probe/orders.hpp: which orders of number/order.hpp, or which steps of a matrix unit, explain the
// trees that were found.
//
//   An explanation gives the tree of each length that was probed, up to its `up_to`. Of lengths
//   beyond nothing is said.
//
// TESTED   tests/probe/orders_test.cpp
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "probe/sees.hpp"
#include "probe/tree.hpp"

namespace plumb::probe {

using Trees = std::map<std::size_t, Tree>;  // by the number of products

// Those that explain the longest prefix of the lengths, the simplest first; none: not even eight
// products. `up_to` is the last length that is explained.
std::vector<Order> orders_that_explain(const Trees& trees);

// Steps of a matrix unit: how many terms, and where FP32 adds up what such steps made.
struct Steps {
  int terms = 0;
  int promoted_after = 0;
  std::optional<Order> parts = {};
};
// Nothing where the trees are no steps, or no sum has two of them. Promotion and parts can look alike; then promotion.
std::optional<Steps> steps_that_explain(const Trees& trees);

}  // namespace plumb::probe
