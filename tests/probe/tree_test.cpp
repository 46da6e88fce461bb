// Is a sum's tree found from where its products meet, and told in words?
#include "probe/tree.hpp"

#include <gtest/gtest.h>

#include <random>

#include "tests/support/effort.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::probe::tree_test {
namespace {

// The size of the smallest part of a tree that holds both products.
std::size_t meeting_in(const Tree& tree, std::size_t i, std::size_t j) {
  const std::function<bool(const Tree&, std::size_t)> holds = [&](const Tree& t, std::size_t k) {
    if (t->parts.empty()) return t->leaf == k;
    return std::ranges::any_of(t->parts, [&](const Tree& part) { return holds(part, k); });
  };
  for (const Tree& part : tree->parts) {
    if (holds(part, i) && holds(part, j)) return meeting_in(part, i, j);
  }
  return tree->leaves;
}

Tree found_again(const Tree& tree) {
  return tree_from(tree->leaves, [&](const std::vector<Meet>& asked) {
    std::vector<std::vector<std::size_t>> sizes;
    for (const Meet& one : asked) {
      sizes.emplace_back();
      for (const std::size_t j : one.others) sizes.back().push_back(meeting_in(tree, one.i, j));
    }
    return std::optional(sizes);
  });
}

// Some of the products, put together at random, two to five at a time.
Tree random_tree(std::size_t n, std::mt19937& random) {
  std::vector<Tree> parts;
  for (std::size_t k = 0; k < n; ++k) parts.push_back(leaf(k));
  while (parts.size() > 1) {
    std::ranges::shuffle(parts, random);
    const std::size_t some = std::min<std::size_t>(parts.size(), 2 + random() % 4);
    const Tree sum = sum_of({parts.end() - static_cast<std::ptrdiff_t>(some), parts.end()});
    parts.resize(parts.size() - some);
    parts.push_back(sum);
  }
  return parts[0];
}

TEST(Tree, IsFoundFromWhereProductsMeet) {
  std::mt19937 random(3);
  for (int draw = 0; draw < effort(200); ++draw) {
    const Tree tree = random_tree(1 + random() % 40, random);
    EXPECT_TRUE(same(found_again(tree), tree)) << text_of(tree, 100);
  }
}

TEST(Tree, ContradictionsAreNoTree) {
  const auto meets = [](const std::vector<Meet>& asked) {
    std::vector<std::vector<std::size_t>> sizes;  // 0 meets three others at 3
    for (const Meet& one : asked) sizes.emplace_back(one.others.size(), 3);
    return std::optional(sizes);
  };
  EXPECT_FALSE(tree_from(4, meets));
  const auto silent = [](const std::vector<Meet>&) {
    return std::optional<std::vector<std::vector<std::size_t>>>();
  };
  EXPECT_FALSE(tree_from(4, silent));
  EXPECT_TRUE(tree_from(1, meets));
}

// Parts that lie equally deep are asked for together.
TEST(Tree, IsFoundInAsManyQuestionsAsItIsDeep) {
  std::size_t questions = 0;
  const Tree tree = tree_of(*parse_order("pairwise"), 256);
  const Tree found = tree_from(256, [&](const std::vector<Meet>& asked) {
    ++questions;
    std::vector<std::vector<std::size_t>> sizes;
    for (const Meet& one : asked) {
      sizes.emplace_back();
      for (const std::size_t j : one.others) sizes.back().push_back(meeting_in(tree, one.i, j));
    }
    return std::optional(sizes);
  });
  EXPECT_TRUE(same(found, tree));
  EXPECT_LE(questions, 9U);
}

Tree of(const std::string& order, std::size_t n) { return tree_of(*parse_order(order), n); }

TEST(Tree, OfAnOrderIsThatOfItsAdditions) {
  EXPECT_EQ(text_of(of("sequential", 5)), "0..4");
  EXPECT_EQ(text_of(of("blocked 4", 10)), "((0..3 + 4..7) + (8 + 9))");
  EXPECT_EQ(text_of(of("blocked 6 swapped", 12)), "(0..5 swapped + 6..11 swapped)");
  EXPECT_EQ(text_of(of("sequential swapped", 7)), "0..6 swapped");
  EXPECT_EQ(text_of(of("split 3", 9)), "((0..2 + 3..5) + 6..8)");
  EXPECT_EQ(text_of(of("pairwise", 4)), "((0 + 1) + (2 + 3))");
  EXPECT_EQ(text_of(of("lanes 4 sequential", 12)), "(((0,4..8 + 1,5..9) + 2,6..10) + 3,7..11)");
  EXPECT_EQ(text_of(of("lanes 4 pairwise", 12)), "((0,4..8 + 1,5..9) + (2,6..10 + 3,7..11))");
  EXPECT_EQ(text_of(of("lanes 4 strided", 12)), "((0,4..8 + 2,6..10) + (1,5..9 + 3,7..11))");
  // As a kernel that has four lanes whatever n is.
  EXPECT_EQ(text_of(of("lanes 4 strided", 3)), "((0 + 2) + 1)");
  EXPECT_EQ(text_of(of("lanes 4 strided", 2)), "(0 + 1)");
  EXPECT_EQ(text_of(of("lanes 4 pairwise", 3)), "0..2");
  EXPECT_EQ(text_of(of("lanes 8 pairwise", 6)), "(((0 + 1) + (2 + 3)) + (4 + 5))");
  EXPECT_EQ(text_of(of("lanes 8 strided", 6)), "(((0 + 4) + 2) + ((1 + 5) + 3))");
  EXPECT_FALSE(same(of("lanes 4 pairwise", 12), of("lanes 4 strided", 12)));
  EXPECT_TRUE(same(of("blocked 16", 12), of("sequential", 12)));
}

TEST(Tree, OfAMatrixUnitHasItsSteps) {
  const Mma unit{bf16, 4, 24, 23};
  EXPECT_EQ(text_of(tree_of(unit, {}, 10)), "(((0 + 1 + 2 + 3) + 4 + 5 + 6 + 7) + 8 + 9)");
  Mma promoted = unit;
  promoted.promoted_after = 4;
  EXPECT_EQ(text_of(tree_of(promoted, {}, 8)), "((0 + 1 + 2 + 3) + (4 + 5 + 6 + 7))");
  EXPECT_EQ(text_of(tree_of(unit, parse_order("split 2"), 16)),
            "(((0 + 1 + 2 + 3) + 4 + 5 + 6 + 7) + ((8 + 9 + 10 + 11) + 12 + 13 + 14 + 15))");
}

TEST(Tree, LongOnesAreShortened) {
  EXPECT_EQ(text_of(of("pairwise", 1024), 4),
            "(([256 from 0] + [256 from 256]) + ([256 from 512] + [256 from 768]))");
}

}  // namespace
}  // namespace plumb::probe::tree_test
