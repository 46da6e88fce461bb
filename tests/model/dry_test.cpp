#include "model/dry.hpp"

#include <gtest/gtest.h>

#include <set>

#include "model/plan.hpp"

namespace plumb {
namespace {

std::string shape(int rows, int cols) { return std::to_string(rows) + "x" + std::to_string(cols); }

// What a run promises of its leaves is what is foretold of them.
TEST(Dry, ShapesAreThoseThatAPlanPromises) {
  const Config c = config_of("llama");
  const Layout l = parse_layout("tp2,sp");
  std::set<std::string> foretold;
  for (const PlacedShape& s : placed_shapes(c, l)) {
    foretold.insert(s.tensor + " " + shape(s.rows, s.cols));
    EXPECT_EQ(s.rows * s.cols, s.own_rows * s.own_cols * (s.sliced == "no" ? 1 : 2)) << s.tensor;
  }
  EXPECT_TRUE(foretold.contains("residual stream of a micro-batch " + shape(c.tokens(), c.width)));
  for (const Parameter& p : parameters(c)) {
    EXPECT_TRUE(foretold.contains(kind_of("m0/" + p.name) + " " + shape(p.rows, p.cols))) << p.name;
  }
}

TEST(Dry, LooksAtARankOfTheFirstAMiddleAndTheLastStage) {
  EXPECT_EQ(ranks_to_look_at(parse_layout("tp2")), (std::vector<int>{0}));
  EXPECT_EQ(ranks_to_look_at(parse_layout("pp2,tp2")), (std::vector<int>{0, 2}));
  EXPECT_EQ(ranks_to_look_at(parse_layout("pp4,dp2,tp2")), (std::vector<int>{0, 8, 12}));
}

// Of a BF16 wire each part is rounded once more than one sum is, so deviations grow with ranks.
TEST(Dry, SharedSumsDeviateMoreTheMoreRanksShareThem) {
  const Config c = config_of("gpt");
  const Recipe bf16 = find_recipe("bf16");
  EXPECT_TRUE(shared_sums(c, bf16, {}).empty());
  const std::vector<SharedSum> two = shared_sums(c, bf16, parse_layout("tp2"));
  const std::vector<SharedSum> eight = shared_sums(c, bf16, parse_layout("tp8"));
  ASSERT_EQ(two.size(), eight.size());
  ASSERT_EQ(two.size(), 5U);
  for (std::size_t i = 0; i < two.size(); ++i) {
    EXPECT_EQ(two[i].on_one_rank.deviation, eight[i].on_one_rank.deviation) << two[i].what;
    EXPECT_GT(two[i].here.deviation, two[i].on_one_rank.deviation) << two[i].what;
    EXPECT_GT(eight[i].here.deviation, two[i].here.deviation) << two[i].what;
    EXPECT_GT(eight[i].here.bound, eight[i].here.deviation) << two[i].what;
  }
}

}  // namespace
}  // namespace plumb
