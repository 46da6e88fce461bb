// Which orders explain trees, and up to which length?
#include "probe/orders.hpp"

#include <gtest/gtest.h>

#include "tests/support/rooms.hpp"

namespace plumb::probe::orders_test {
namespace {

const std::vector<std::size_t> lengths{1, 2, 3, 4, 5, 7, 8, 12, 16, 31, 32, 33, 48, 64, 100};

Trees trees_of(const std::string& order) {
  Trees trees;
  for (const std::size_t n : lengths) trees[n] = tree_of(*parse_order(order), n);
  return trees;
}

TEST(Orders, EachExplainsItsOwnTrees) {
  for (const std::string order :
       {"sequential", "pairwise", "blocked 5", "blocked 32", "split 2", "split 7",
        "lanes 4 strided", "lanes 4 pairwise", "lanes 4 sequential", "lanes 32 strided",
        "sequential swapped", "blocked 32 swapped", "lanes 8 pairwise swapped"}) {
    const auto found = orders_that_explain(trees_of(order));
    ASSERT_FALSE(found.empty()) << order;
    EXPECT_EQ(text_of(found[0]), order + " up to 100");
  }
}

TEST(Orders, AreClaimedUpToTheLastLengthThatTheyExplain) {
  Trees trees = trees_of("sequential");
  for (const std::size_t n : {48, 64, 100}) trees[n] = tree_of(*parse_order("lanes 3 strided"), n);
  const auto found = orders_that_explain(trees);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(text_of(found[0]), "sequential up to 33");
}

TEST(Orders, ThatHaveNoNameExplainNothing) {
  Trees trees;
  for (const std::size_t n : {1, 2, 3, 4, 5}) {
    // The first and the last one, then from the second on.
    Tree tree = sum_of({leaf(0), n > 1 ? leaf(n - 1) : nullptr});
    for (std::size_t k = 1; k + 1 < n; ++k) tree = sum_of({tree, leaf(k)});
    trees[n] = tree;
  }
  EXPECT_TRUE(orders_that_explain(trees).empty());
  EXPECT_TRUE(orders_that_explain({}).empty());
}

TEST(Orders, StepsOfAMatrixUnitAreFound) {
  for (const int terms : {2, 4, 16, 32}) {
    for (const int promoted_after : {0, 2 * terms}) {
      for (const bool split : {false, true}) {
        const Mma unit{bf16, terms, 1, 1, promoted_after};
        const auto parts = split ? parse_order("split 2") : std::nullopt;
        if (split && promoted_after > 0) continue;
        Trees trees;
        for (const std::size_t n : lengths) trees[n] = tree_of(unit, parts, n);
        const auto found = steps_that_explain(trees);
        ASSERT_TRUE(found) << terms;
        EXPECT_EQ(found->terms, terms);
        EXPECT_EQ(found->promoted_after, promoted_after);
        EXPECT_EQ(found->parts.has_value(), split);
      }
    }
  }
  EXPECT_FALSE(steps_that_explain(trees_of("lanes 4 strided")));
}

}  // namespace
}  // namespace plumb::probe::orders_test
