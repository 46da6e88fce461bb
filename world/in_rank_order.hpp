// world/in_rank_order.hpp: the sum that every world promises, of parts that lie in one place.
//
// TESTED   tests/world/threads_test.cpp
#pragma once

#include <algorithm>
#include <span>

#include "number/rounding.hpp"
#include "world/sees.hpp"

namespace plumb::world {

// Sets x to the sum of the parts, which lie one after another, in their order; every running sum is
// rounded to `wire`.
inline void add_in_rank_order(std::span<const float> parts, std::span<float> x,
                              const Format& wire) {
  if (x.empty()) return;
  std::copy_n(parts.begin(), x.size(), x.begin());
  for (std::size_t start = x.size(); start < parts.size(); start += x.size()) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += parts[start + i];
    round_in_place(x, wire);
  }
}

}  // namespace plumb::world
