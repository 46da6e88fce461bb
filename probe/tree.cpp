#include "probe/tree.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace plumb::probe {
namespace {

bool before(const Tree& x, const Tree& y) { return x->leaf < y->leaf; }

// Splits products into parts from the top down, and puts these together from the bottom up.
class Builder {
 public:
  explicit Builder(const Meetings& meets) : meets_(meets) {}

  Tree operator()(std::size_t n) {
    std::vector<std::size_t> products(n);
    for (std::size_t k = 0; k < n; ++k) products[k] = k;
    tasks_.push_back({std::move(products), n + 1, {}});
    for (std::size_t first = 0; first < tasks_.size();) {
      const std::size_t end = tasks_.size();
      if (!split(first, end)) return {};
      first = end;
    }
    const std::vector<Tree> parts = parts_of(tasks_[0]);
    return parts.size() == 1 && parts[0]->leaves == n ? parts[0] : nullptr;
  }

 private:
  // Products of a part of `whole`; those that meet the first of them at the same size are groups.
  struct Task {
    std::vector<std::size_t> products;
    std::size_t whole;
    std::vector<std::pair<std::size_t, std::size_t>> groups;  // size, task
  };

  // Asks for some tasks at once; what they are split into is appended. False on a contradiction.
  bool split(std::size_t first, std::size_t end) {
    std::vector<Meet> asked;
    for (std::size_t t = first; t < end; ++t) {
      const auto& products = tasks_[t].products;
      asked.push_back({products[0], {products.begin() + 1, products.end()}});
    }
    const auto sizes = meets_(asked);
    if (!sizes) return false;
    for (std::size_t t = first; t < end; ++t) {
      std::map<std::size_t, std::vector<std::size_t>> by_size;
      const Meet& one = asked[t - first];
      for (std::size_t m = 0; m < one.others.size(); ++m) {
        by_size[(*sizes)[t - first][m]].push_back(one.others[m]);
      }
      for (auto& [size, others] : by_size) {
        if (size > tasks_[t].whole) return false;
        tasks_[t].groups.emplace_back(size, tasks_.size());
        tasks_.push_back({std::move(others), size, {}});
      }
    }
    return true;
  }

  // The parts of the part that holds these products; nothing on a contradiction.
  std::vector<Tree> parts_of(const Task& task) {
    Tree tree = leaf(task.products[0]);
    for (const auto& [size, group] : task.groups) {
      std::vector<Tree> parts = parts_of(tasks_[group]);
      if (parts.empty()) return {};
      parts.push_back(tree);
      if (size == task.whole) return parts;
      tree = sum_of(std::move(parts));
      if (tree->leaves != size) return {};
    }
    return {tree};
  }

  const Meetings& meets_;
  std::vector<Task> tasks_;
};

// Is the tree a chain that adds the products first, first + stride, ... one by one? Then its last.
struct Chain {
  std::size_t first, stride, last;
  bool swapped = false;  // the products of each pair
};
std::optional<Chain> chain_in(const Tree& tree) {
  std::vector<std::size_t> products;
  const Node* at = tree.get();
  for (; at->parts.size() == 2 && at->parts[1]->parts.empty(); at = at->parts[0].get()) {
    products.push_back(at->parts[1]->leaf);
  }
  if (!at->parts.empty()) return {};
  products.push_back(at->leaf);
  std::ranges::reverse(products);
  if (products.size() < 3) return {};
  const bool swapped = products.size() > 3 && products[3] < products[2];
  // The first two are told in rising order, whichever was first.
  for (std::size_t m = 2; swapped && m + 1 < products.size(); m += 2) {
    std::swap(products[m], products[m + 1]);
  }
  const std::size_t stride = products[1] - products[0];
  for (std::size_t m = 1; m < products.size(); ++m) {
    if (products[m] != products[m - 1] + stride) return {};
  }
  return Chain{products.front(), stride, products.back(), swapped};
}

}  // namespace

Tree leaf(std::size_t k) { return std::make_shared<const Node>(Node{k}); }

Tree sum_of(std::vector<Tree> parts) {
  std::erase(parts, nullptr);
  if (parts.empty()) return {};
  if (parts.size() == 1) return parts[0];
  std::ranges::sort(parts, before);
  Node node{parts[0]->leaf, 0, std::move(parts)};
  for (const Tree& part : node.parts) node.leaves += part->leaves;
  return std::make_shared<const Node>(std::move(node));
}

bool same(const Tree& x, const Tree& y) {
  if (!x || !y) return !x && !y;
  return x->leaf == y->leaf && x->leaves == y->leaves &&
         std::ranges::equal(x->parts, y->parts, same);
}

Tree tree_of(const Order& order, std::size_t n) {
  const auto step = [](const Tree& c, std::size_t k) { return sum_of({c, leaf(k)}); };
  const auto add = [](const Tree& x, const Tree& y) { return sum_of({x, y}); };
  return total<Tree>(order, n, step, add);
}

Tree tree_of(const Mma& unit, const std::optional<Order>& parts, std::size_t n) {
  const auto terms = static_cast<std::size_t>(unit.terms);
  // A chain of steps from `first`, begun anew and added up each `length` products.
  const auto chains = [&](std::size_t first, std::size_t last, std::size_t length) {
    Tree sum;
    for (std::size_t at = first; at < last; at += length) {
      Tree chain;
      const std::size_t end = std::min(at + length, last);
      for (std::size_t k = at; k < end; k += terms) {
        std::vector<Tree> step{chain};
        for (std::size_t i = k; i < std::min(k + terms, end); ++i) step.push_back(leaf(i));
        chain = sum_of(std::move(step));
      }
      sum = sum_of({sum, chain});
    }
    return sum;
  };
  const auto promoted = static_cast<std::size_t>(unit.promoted_after);
  if (!parts) return chains(0, n, promoted == 0 ? std::max<std::size_t>(n, 1) : promoted);
  const bool split = parts->kind == Order::Kind::split;
  const std::size_t block = split ? (n + parts->block - 1) / parts->block : parts->block;
  Tree sum;
  for (std::size_t at = 0; at < n; at += block) {
    const std::size_t end = std::min(at + block, n);
    sum = sum_of({sum, chains(at, end, promoted == 0 ? block : promoted)});
  }
  return sum;
}

std::string text_of(const Tree& tree, std::size_t most) {
  if (!tree) return "nothing";
  if (tree->parts.empty()) return std::to_string(tree->leaf);
  if (const auto chain = chain_in(tree)) {
    const std::string second =
        chain->stride == 1 ? "" : "," + std::to_string(chain->first + chain->stride);
    return std::to_string(chain->first) + second + ".." + std::to_string(chain->last) +
           (chain->swapped ? " swapped" : "");
  }
  if (most < tree->parts.size()) {
    return "[" + std::to_string(tree->leaves) + " from " + std::to_string(tree->leaf) + "]";
  }
  std::string text;
  const auto sums = static_cast<std::size_t>(
      std::ranges::count_if(tree->parts, [](const Tree& part) { return !part->parts.empty(); }));
  const std::size_t each = (most - (tree->parts.size() - sums)) / std::max<std::size_t>(sums, 1);
  for (const Tree& part : tree->parts) text += (text.empty() ? "(" : " + ") + text_of(part, each);
  return text + ")";
}

Tree tree_from(std::size_t n, const Meetings& meets) {
  return n == 0 ? nullptr : Builder(meets)(n);
}

}  // namespace plumb::probe
