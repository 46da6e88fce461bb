// Does the grammar say yes and no where it should?
#include "model/spec/layout.hpp"

#include <gtest/gtest.h>

#include "model/spec/mesh.hpp"
#include "model/spec/recipe.hpp"
#include "number/outcome.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::layout_test {
namespace {

TEST(Layout, ReadsItsGrammar) {
  EXPECT_EQ(parse_layout("dp2,tp4,sp"), (Layout{.dp = 2, .tp = 4, .sp = true}));
  EXPECT_EQ(parse_layout("tp2"), (Layout{.tp = 2}));
  EXPECT_EQ(parse_layout("vpp2,pp2:1+1+1+1"),
            (Layout{.pp = 2, .vpp = 2, .stage_layers = {1, 1, 1, 1}}));
  EXPECT_EQ(parse_layout("recompute"), (Layout{.recompute = 1}));
  for (const char* text :
       {"dp2,tp4,sp", "pp2:3+1,zero3", "cp2:ulysses,tp2", "cp2:ring", "cp2", "dp4,ep2",
        "pp2,vpp2,recompute:uniform2", "dp4,zero1,recompute:selective,overlap:7", "offload",
        "offload:activations", "offload:optimizer,tp2", "dp4,zero3:2", "dp2,zero1,padded",
        "tp2,recompute:uniform1,split", "dp2,runs2", "dp2,predivide4", "dp2,ep2,tp2,sp,etp1"}) {
    EXPECT_EQ(parse_layout(name_of(parse_layout(text))), parse_layout(text)) << text;
  }
  for (const char* bad : {"tp",         "tp0",        "tp-1",           "tp2,tp2",
                          "xp2",        "sp2",        "tp9999",         "2",
                          "tp2 dp2",    "pp2:",       "pp2:a",          "tp2:3+1",
                          "cp2:star",   "zero4",      "zero",           "zero3:",
                          "zero3:0",    "tp2:2",      "recompute:much", "recompute:uniform",
                          "recompute3", "pp2:3+0",    "overlap",        "overlap:0",
                          "overlap:a",  "overlap2:1", "offload:",       "offload:weights",
                          "offload2",   "predivide",  "predivide0",     "predivide3",
                          "etp2",       "etp"}) {
    EXPECT_THROW(parse_layout(bad), Failure) << bad;
  }
}

TEST(Layout, OfWholeExpertsTakesNoRecipeInBlocks) {
  const Config c = config_of("llama-moe");
  const Layout whole = parse_layout("tp2,sp,etp1");
  EXPECT_NO_THROW(check_recipe(find_recipe("fp8-current"), whole, c));
  for (const char* in_blocks : {"fp8-block", "mxfp8", "nvfp4"}) {
    EXPECT_THROW(check_recipe(find_recipe(in_blocks), whole, c), Failure) << in_blocks;
  }
}

TEST(Layout, MustDivideTheModel) {
  Config c = config_of("llama");  // 8 heads, 4 KV heads, 4 layers
  c.micro_batches = 4;
  for (const char* good :
       {"dp4,tp4,sp", "tp8,sp", "pp4", "pp3", "pp2,vpp2", "pp2:3+1", "dp4,tp4,pp4", "cp4:ulysses",
        "cp4:ring,tp2", "cp32,sp,tp2", "dp4,zero3:2"}) {
    EXPECT_NO_THROW(check_layout(parse_layout(good), c)) << good;
  }
  for (const char* bad : {"tp3", "tp8,cp2", "tp16", "dp3", "pp5", "pp2:3+2", "pp2:4", "vpp2",
                          "pp4,vpp2", "pp2,vpp2:1+1", "dp8,tp4,pp4", "cp3", "cp64",
                          "cp4:ulysses,tp2", "dp4,zero1:3", "zero3:2"}) {
    EXPECT_THROW(check_layout(parse_layout(bad), c), Failure) << bad;
  }
}

TEST(Layout, ExpertsAreDividedAmongDataParallelRanks) {
  Config c = config_of("llama-moe");  // 4 experts of 192 units
  c.micro_batches = 6;
  for (const char* good : {"dp2,ep2", "dp6,ep2", "dp2", "tp4,sp", "dp2,ep2,zero3,pp2", "cp2",
                           "dp2,ep2,cp4:ring,tp2,sp", "dp2,ep2,tp2,sp,etp1"}) {
    EXPECT_NO_THROW(check_layout(parse_layout(good), c)) << good;
  }
  for (const char* bad :
       {"sp,etp1", "tp2,etp1", "ep2", "cp2,ep2", "dp3,ep3", "dp3,ep2", "dp6,ep3,zero1:3"}) {
    EXPECT_THROW(check_layout(parse_layout(bad), c), Failure) << bad;
  }
  c.experts = 0;
  EXPECT_THROW(check_layout(parse_layout("dp2,ep2"), c), Failure);
  // Of six ranks 0, 3 and 1, 4 and 2, 5 have all experts together; 0, 1, 2 and 3, 4, 5 the same.
  const std::vector<Division> divisions = divisions_of(parse_layout("dp6,ep2"));
  for (int rank = 0; rank < 6; ++rank) {
    EXPECT_EQ(divisions[6](rank), rank % 3);
    EXPECT_EQ(divisions[7](rank), rank - rank % 3);
  }
}

// Of eight ranks, four of which have the same experts, pairs have all shares of a parameter.
TEST(Layout, SharesLieAmongNeighbours) {
  const std::vector<Division> hybrid = divisions_of(parse_layout("dp8,ep2,zero3:2"));
  const std::vector<Division> plain = divisions_of(parse_layout("dp8,ep2,zero3"));
  for (int rank = 0; rank < 8; ++rank) {
    for (const std::size_t axis : {8U, 9U}) EXPECT_EQ(hybrid[axis](rank), rank / 2 * 2);
    EXPECT_EQ(plain[8](rank), 0);
    EXPECT_EQ(plain[9](rank), rank / 4 * 4);
  }
}

TEST(Layout, StagesAreAsEvenAsTheyGo) {
  Config c = config_of("gpt");
  c.layers = 5;
  const std::vector<Stage> even = stages_of(parse_layout("pp3"), c);
  ASSERT_EQ(even.size(), 3U);
  EXPECT_EQ(even[0].last, 2);
  EXPECT_EQ(even[1].last, 4);
  EXPECT_EQ(even[2].last, 5);
  EXPECT_EQ(stages_of(parse_layout("pp2:1+4"), c)[1].first, 1);
}

TEST(Mesh, NeighboursAreTensorParallel) {
  const Layout layout = parse_layout("dp2,tp2,pp2");
  EXPECT_EQ(coordinates(layout, 0), (Coordinates{0, 0, 0, 0}));
  EXPECT_EQ(coordinates(layout, 1), (Coordinates{0, 0, 0, 1}));
  EXPECT_EQ(coordinates(layout, 2), (Coordinates{0, 1, 0, 0}));
  EXPECT_EQ(coordinates(layout, 4), (Coordinates{1, 0, 0, 0}));
  // Ranks 1, 3, 5, 7 by the axis along which each shares a group with rank 1.
  const std::vector<Division> divisions = divisions_of(layout);
  const auto together = [&](std::size_t axis, int other) {
    return divisions[axis](1) == divisions[axis](other);
  };
  EXPECT_TRUE(together(0, 0) && !together(0, 3) && !together(0, 5));
  EXPECT_TRUE(together(2, 3) && !together(2, 0) && !together(2, 5));
  EXPECT_TRUE(together(3, 5) && !together(3, 0) && !together(3, 3));
  EXPECT_TRUE(together(4, 0) && together(4, 4) && together(4, 5) && !together(4, 3));
  EXPECT_TRUE(together(5, 0) && !together(5, 3) && !together(5, 5));
  EXPECT_EQ(coordinates(parse_layout("tp2,cp2"), 2), (Coordinates{0, 0, 1, 0}));
}

}  // namespace
}  // namespace plumb::layout_test
