// number/order.hpp: in which order, and with which rounding, FP32 takes a sum of products.
//
//   sequential      c = fma(a_k, b_k, c), k = 0, 1, ...
//   blocked B       such a chain from zero for each B products; the chains' sums one after the other
//   split S         blocked, in S blocks: each of ceil(n / S) products
//   lanes L J       chain l takes the products l, l + L, l + 2 L ...; the L sums are then added by J:
//                   sequential, pairwise, or strided. Lanes without products are left out
//   pairwise        each product rounded; halves of the sum added, and so down to single products
//   strided         of w numbers, the last floor(w / 2) are added to the first ones; and so again,
//                   until one is left (as vector registers are folded)
//
// `swapped`: of the products 1, 0, 3, 2 ... in the place of 0, 1, 2, 3 ... (a last one without a
// neighbour stays), as instructions that multiply pairs take them.
// `up to N`: known of sums of at most N products, of longer ones nothing.
//
// TESTED   tests/kernels/ordered_test.cpp
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "number/rounding.hpp"

namespace plumb {

struct Order {
  enum class Kind { sequential, blocked, pairwise, split, interleaved } kind = Kind::sequential;
  enum class Join { sequential, pairwise, strided };
  std::size_t block = 0;                       // of blocked, parts of split, lanes: at least 1
  Rounding rounding = Rounding::nearest_even;  // of each step
  Join join = Join::sequential;                // of lanes
  bool swapped = false;                        // the products of each pair
  std::size_t up_to = 0;                       // 0: any length

  bool knows(std::size_t products) const { return up_to == 0 || products <= up_to; }
  bool operator==(const Order&) const = default;
};

// "sequential", "pairwise", "blocked 128", "split 4", "lanes 8 strided", each also with "swapped",
// and then with "up to 1024"; nothing for any other text.
std::optional<Order> parse_order(std::string_view text);
// The text that parse_order reads; it does not say the rounding.
std::string text_of(const Order& order);

// The sum of n products. `step(c, k)` adds product k to c, `add(c, d)` adds two sums; whether these
// are numbers, bounds or trees is the caller's affair.
template <class T, class Step, class Add>
class Sequence {
 public:
  Sequence(const Step& step, const Add& add) : step_(step), add_(add) {}

  T chain(std::size_t first, std::size_t last, std::size_t stride = 1) const {
    T c{};
    for (std::size_t k = first; k < last; k += stride) c = step_(c, k);
    return c;
  }
  T blocks(std::size_t n, std::size_t block) const {
    T c = chain(0, std::min(block, n));
    for (std::size_t at = block; at < n; at += block) {
      c = add_(c, chain(at, std::min(at + block, n)));
    }
    return c;
  }
  T halves(std::size_t first, std::size_t last) const {
    if (last - first <= 1) return chain(first, last);
    const std::size_t middle = first + (last - first) / 2;
    return add_(halves(first, middle), halves(middle, last));
  }
  T interleaved(std::size_t n, std::size_t count, Order::Join join) const {
    std::vector<T> sums;
    for (std::size_t l = 0; l < std::min(n, count); ++l) sums.push_back(chain(l, n, count));
    if (sums.empty()) return T{};
    if (join == Order::Join::pairwise) return joined(sums, 0, count);
    const bool strided = join == Order::Join::strided;
    for (std::size_t width = count; width > 1;) {
      const std::size_t kept = strided ? width - width / 2 : 1;
      for (std::size_t l = kept; l < std::min(width, sums.size()); ++l) {
        T& into = sums[strided ? l - kept : 0];
        into = add_(into, sums[l]);
      }
      width = kept;
    }
    return sums[0];
  }

 private:
  // The sum of lanes first ... last - 1, as far as there are any.
  T joined(const std::vector<T>& sums, std::size_t first, std::size_t last) const {
    if (last - first == 1) return sums[first];
    const std::size_t middle = first + (last - first) / 2;
    const T low = joined(sums, first, middle);
    return middle < sums.size() ? add_(low, joined(sums, middle, last)) : low;
  }

  const Step& step_;
  const Add& add_;
};

template <class T, class Step, class Add>
T total_unswapped(const Order& order, std::size_t n, const Step& step, const Add& add) {
  const Sequence<T, Step, Add> sum(step, add);
  switch (order.kind) {
    case Order::Kind::pairwise:
      return sum.halves(0, n);
    case Order::Kind::blocked:
      return sum.blocks(n, order.block);
    case Order::Kind::split:
      return sum.blocks(n, std::max<std::size_t>(1, (n + order.block - 1) / order.block));
    case Order::Kind::interleaved:
      return sum.interleaved(n, order.block, order.join);
    default:
      return sum.chain(0, n);
  }
}

template <class T, class Step, class Add>
T total(const Order& order, std::size_t n, const Step& step, const Add& add) {
  if (!order.swapped) return total_unswapped<T>(order, n, step, add);
  const auto other = [&](const T& c, std::size_t k) { return step(c, (k ^ 1) < n ? k ^ 1 : k); };
  return total_unswapped<T>(order, n, other, add);
}

}  // namespace plumb
