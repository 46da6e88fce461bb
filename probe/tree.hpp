// probe/tree.hpp: how a sum of n products was put together: a tree whose leaves are the products.
//
// A sum of two has two parts; what a matrix unit adds in one step has more.
//
// TESTED   tests/probe/tree_test.cpp
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "number/mma.hpp"
#include "number/order.hpp"
#include "probe/sees.hpp"

namespace plumb::probe {

struct Node;
// Empty: a sum of nothing.
using Tree = std::shared_ptr<const Node>;

struct Node {
  std::size_t leaf = 0;          // the product, where there are no parts; else the first of them
  std::size_t leaves = 1;        // below
  std::vector<Tree> parts = {};  // two or more, by their first product
};

Tree leaf(std::size_t k);
// The sum of some trees, in whatever order; empty ones are left out, a single one is itself.
Tree sum_of(std::vector<Tree> parts);
bool same(const Tree& x, const Tree& y);

// The tree of n products in an order, and in steps of a matrix unit; the latter also in parts.
Tree tree_of(const Order& order, std::size_t n);
Tree tree_of(const Mma& unit, const std::optional<Order>& parts, std::size_t n);

// "(0..3 + 4..7)": two chains of four, added; "0,2..6" is the chain 0, 2, 4, 6, "0..3 swapped" the
// chain 1, 0, 3, 2. What has more than
// about `most` parts is shortened: "[512 from 0]".
std::string text_of(const Tree& tree, std::size_t most = 24);

// Where does product i meet each of some others? Answers are numbers of products, in the smallest part
// that holds both; one list for each question, or nothing where results do not tell.
struct Meet {
  std::size_t i;
  std::vector<std::size_t> others;
};
using Meetings =
    std::function<std::optional<std::vector<std::vector<std::size_t>>>(const std::vector<Meet>&)>;

// The tree of n products from where they meet (FPRev [Xie25]); nothing where meetings contradict each
// other. Asks about n to n^2 / 2 pairs, all of them at once that lie equally deep.
Tree tree_from(std::size_t n, const Meetings& meets);

}  // namespace plumb::probe
