// number/order.hpp: in which order, and with which rounding, FP32 takes a sum of products.
//
//   sequential   c = fma(a_k, b_k, c), k = 0, 1, ...
//   blocked B    such a chain from zero for each B products; the chains' sums one after the other
//   pairwise     each product rounded; halves of the sum added, and so down to single products
//
// TESTED   tests/kernels/ordered_test.cpp
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "number/rounding.hpp"

namespace plumb {

struct Order {
  enum class Kind { sequential, blocked, pairwise } kind = Kind::sequential;
  std::size_t block = 0;                       // of blocked, at least 1
  Rounding rounding = Rounding::nearest_even;  // of each step
};

// "sequential", "pairwise", "blocked 128"; nothing for any other text.
std::optional<Order> parse_order(std::string_view text);

// The sum of n products. `step(c, k)` adds product k to c, `add(c, d)` adds two sums; whether these
// are numbers or bounds is the caller's affair.
template <class T, class Step, class Add>
T total(const Order& order, std::size_t first, std::size_t last, const Step& step, const Add& add) {
  T c{};
  if (order.kind == Order::Kind::pairwise && last - first > 1) {
    const std::size_t middle = first + (last - first) / 2;
    return add(total<T>(order, first, middle, step, add), total<T>(order, middle, last, step, add));
  }
  const std::size_t block = order.kind == Order::Kind::blocked ? order.block : last - first;
  for (std::size_t at = first; at < last; at += block) {
    T chain{};
    for (std::size_t k = at; k < last && k < at + block; ++k) chain = step(chain, k);
    c = at == first ? chain : add(c, chain);
  }
  return c;
}

}  // namespace plumb
