#include "model/estimate/dry.hpp"

#include <gtest/gtest.h>

#include <set>

#include "tests/support/rooms.hpp"
#include "tests/support/runs.hpp"

namespace plumb::dry_test {
namespace {

template <class T>
std::string shape(T rows, T cols) {
  return std::to_string(rows) + "x" + std::to_string(cols);
}

// Do ranks of a run hold what is foretold of them?
TEST(Dry, ShapesAreThoseThatRanksHold) {
  for (const char* family : {"gpt-moe", "llama+latent=12+shared_key=4"}) {
    const Training run = small_run(family, "bf16", "tp2,sp");
    const Trace trace = train_step(run, leaves_of_run(run), {}, find_backend("reference"));
    std::set<std::string> held, foretold;
    for (const auto& [id, shard] : trace.ranks[0].shards) {
      const std::size_t at = id.find("/param@previous");
      if (at == id.npos || (id.starts_with("layers.") && !id.starts_with("layers.0."))) continue;
      if (id.find(".experts.") != id.npos && id.find(".experts.0.") == id.npos) continue;
      const Placement& lies = shard.placement;
      held.insert(kind_of("m0/" + id.substr(0, at)) + " " + shape(lies.rows, lies.cols) + " " +
                  shape(shard.values.rows, shard.values.cols));
    }
    for (const PlacedShape& s : placed_shapes(run.config, run.layout)) {
      if (s.tensor == "residual stream of a micro-batch") continue;
      foretold.insert(s.tensor + " " + shape(s.rows, s.cols) + " " + shape(s.own_rows, s.own_cols));
    }
    EXPECT_EQ(held, foretold) << family;
  }
}

TEST(Dry, AStreamsTokensAreSliced) {
  const Config c = config_of("llama");
  const PlacedShape stream = placed_shapes(c, parse_layout("tp2,cp2,sp")).back();
  EXPECT_EQ(stream.rows, c.tokens());
  EXPECT_EQ(stream.own_rows, c.tokens() / 4);
  EXPECT_EQ(stream.own_cols, c.width);
  EXPECT_EQ(placed_shapes(c, parse_layout("tp2,cp2")).back().own_rows, c.tokens() / 2);
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

TEST(Dry, ALatentHasSumsOfItsOwn) {
  Config c = config_of("llama");
  c.latent = 32;
  c.shared_key = 8;
  std::set<std::string> sums;
  for (const SharedSum& sum : shared_sums(c, find_recipe("bf16"), parse_layout("tp2"))) {
    sums.insert(sum.what + " " + std::to_string(sum.terms));
  }
  // Both ends of its products; keys of 8 own columns and values of 16, by 4 heads.
  for (const char* sum :
       {"attn.q/grad_in 128", "attn.kv_up/grad_in 96", "attn.shared_key/grad_out 4"}) {
    EXPECT_TRUE(sums.contains(sum)) << sum;
  }
}

}  // namespace
}  // namespace plumb::dry_test
