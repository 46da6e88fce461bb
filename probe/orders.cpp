#include "probe/orders.hpp"

#include <algorithm>
#include <set>

namespace plumb::probe {
namespace {

// The sizes of all parts of a tree.
void collect_sizes(const Tree& tree, std::set<std::size_t>& sizes) {
  sizes.insert(tree->leaves);
  for (const Tree& part : tree->parts) collect_sizes(part, sizes);
}

// The distances from a part's first product to the next one's.
void collect_strides(const Tree& tree, std::set<std::size_t>& strides) {
  for (std::size_t i = 1; i < tree->parts.size(); ++i) {
    strides.insert(tree->parts[i]->leaf - tree->parts[0]->leaf);
  }
  for (const Tree& part : tree->parts) collect_strides(part, strides);
}

std::vector<Order> candidates(const Tree& longest) {
  using Kind = Order::Kind;
  std::vector<Order> all{{Kind::sequential}, {Kind::pairwise}};
  std::set<std::size_t> strides, sizes;
  collect_strides(longest, strides);
  collect_sizes(longest, sizes);
  for (const std::size_t lanes : strides) {
    if (lanes < 2) continue;
    for (const auto join : {Order::Join::sequential, Order::Join::pairwise, Order::Join::strided}) {
      all.push_back({.kind = Kind::interleaved, .block = lanes, .join = join});
    }
  }
  for (const std::size_t block : sizes) {
    if (block > 1) all.push_back({Kind::blocked, block});
  }
  for (std::size_t parts = 2; parts <= 64; ++parts) all.push_back({Kind::split, parts});
  const std::size_t plain = all.size();
  for (std::size_t i = 0; i < plain; ++i) {
    all.push_back(all[i]);
    all.back().swapped = true;
  }
  return all;
}

// The last length up to which all trees are those of the order.
std::size_t explained(const Trees& trees, const Order& order) {
  std::size_t last = 0;
  for (const auto& [n, tree] : trees) {
    if (!tree || !same(tree, tree_of(order, n))) break;
    last = n;
  }
  return last;
}

// How many parts the largest step adds.
std::size_t most_parts(const Tree& tree) {
  std::size_t most = tree->parts.size();
  for (const Tree& part : tree->parts) most = std::max(most, most_parts(part));
  return most;
}

// Steps of so many terms, promoted or in parts as the sizes in the trees allow.
std::vector<Steps> steps_of(int terms, const std::set<std::size_t>& sizes) {
  std::vector<Steps> all{{terms, 0, {}}};
  for (const std::size_t size : sizes) {
    if (size % static_cast<std::size_t>(terms) == 0) {
      all.push_back({terms, static_cast<int>(size), {}});
    }
  }
  for (std::size_t parts = 2; parts <= 64; ++parts) {
    all.push_back({terms, 0, Order{Order::Kind::split, parts}});
  }
  return all;
}

}  // namespace

std::vector<Order> orders_that_explain(const Trees& trees) {
  std::vector<Order> best;
  std::set<std::size_t> lengths;
  for (const auto& [n, tree] : trees) {
    if (!tree) break;
    lengths.insert(n);
  }
  if (lengths.empty()) return {};
  std::vector<Order> all;
  for (const std::size_t n : lengths) {
    for (const Order& order : candidates(trees.at(n))) {
      if (std::ranges::find(all, order) == all.end()) all.push_back(order);
    }
  }
  std::ranges::stable_sort(all, {}, [](const Order& order) {
    using Kind = Order::Kind;
    constexpr Kind simplest[] = {Kind::sequential, Kind::pairwise, Kind::interleaved, Kind::blocked,
                                 Kind::split};
    return 2 * (std::ranges::find(simplest, order.kind) - std::begin(simplest)) + order.swapped;
  });
  for (Order order : all) {
    order.up_to = explained(trees, order);
    if (order.up_to < least_explained || (!best.empty() && order.up_to < best[0].up_to)) continue;
    if (!best.empty() && order.up_to > best[0].up_to) best.clear();
    best.push_back(order);
  }
  return best;
}

std::optional<Steps> steps_that_explain(const Trees& trees) {
  std::size_t most = 0;
  std::set<std::size_t> sizes;
  if (trees.empty()) return {};
  for (const auto& [n, tree] : trees) {
    if (!tree) return {};
    most = std::max(most, most_parts(tree));
    collect_sizes(tree, sizes);
  }
  // A step adds its terms to the sum so far, or, as the only one of a chain, to nothing.
  for (const std::size_t terms : {most - 1, most}) {
    if (terms < 2 || terms > Mma::most_terms || trees.rbegin()->first <= terms) continue;
    for (const Steps& steps : steps_of(static_cast<int>(terms), sizes)) {
      const Mma unit{fp32, steps.terms, 1, 1, steps.promoted_after};
      const auto explains = [&](const auto& each) {
        return same(each.second, tree_of(unit, steps.parts, each.first));
      };
      if (std::ranges::all_of(trees, explains)) return steps;
    }
  }
  return {};
}

}  // namespace plumb::probe
