// number/shuffle.hpp: an order by chance, all orders alike.
//
// TESTED   tests/bounds/operations/drawn_order_test.cpp
#pragma once

#include <cstddef>
#include <span>
#include <utility>

namespace plumb {

// `below(n)` draws one of 0 ... n - 1.
template <class T, class Below>
void shuffle(std::span<T> x, const Below& below) {
  for (std::size_t left = x.size(); left > 1; --left) std::swap(x[left - 1], x[below(left)]);
}

}  // namespace plumb
