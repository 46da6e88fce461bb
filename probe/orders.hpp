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

// The lengths whose trees are asked for, as far as a probe goes.
inline constexpr std::size_t probed_lengths[] = {
    1,   2,   3,   4,   5,   6,    7,    8,    12,   15,   16,   17,   24,  31,
    32,  33,  48,  64,  96,  100,  128,  192,  200,  256,  320,  384,  385, 448,
    500, 512, 640, 768, 900, 1000, 1024, 1536, 2000, 2048, 3072, 4000, 4096};

// Those that explain the longest prefix of the lengths, the simplest first; none: not even eight
// products. `up_to` is the last length that is explained.
std::vector<Order> orders_that_explain(const Trees& trees);
// Of shorter sums many orders have the trees by chance.
inline constexpr std::size_t least_explained = 8;

// Steps of a matrix unit: how many terms, and where FP32 adds up what such steps made.
struct Steps {
  int terms = 0;
  int promoted_after = 0;
  std::optional<Order> parts = {};
};
// Nothing where the trees are no steps, or no sum has two of them. Promotion and parts can look alike; then promotion.
std::optional<Steps> steps_that_explain(const Trees& trees);

}  // namespace plumb::probe
