// Where ranks round results by draws of their own: does every place draw, does no healthy run look
// wrong, and does a tolerance know of it?
#include <gtest/gtest.h>

#include <set>

#include "model/data/text.hpp"
#include "model/plan/plan.hpp"
#include "model/run/start.hpp"
#include "number/rounding.hpp"
#include "tests/support/rooms.hpp"
#include "trace/check.hpp"
#include "trace/merge.hpp"
#include "trace/replay.hpp"

namespace plumb::stochastic_results_test {
namespace {

Start start_of_small(const std::string& family, const std::string& layout) {
  Config config = config_of(family);
  config.layers = 2;
  config.width = 64;
  config.hidden = 128;
  config.sequence = 32;
  return start_of(config, find_recipe("trainium"), parse_layout(layout), default_text());
}

Trace over_ranks(const Start& start) {
  return run_candidate(start, Joints(), "reference", threads()).trace;
}

bool all(const std::string&) { return true; }

// Every layout that may draw, between them each way to round.
class Draws : public testing::TestWithParam<std::tuple<const char*, const char*>> {
 protected:
  Start start = start_of_small(std::get<0>(GetParam()), std::get<1>(GetParam()));
  Trace reference = run_reference(start);
  Trace run = over_ranks(start);
};

TEST_P(Draws, NoHealthyRunIsAccused) {
  const Verdict verdict = check(reference, run, {});
  EXPECT_TRUE(verdict.findings.empty())
      << verdict.findings.front().id << ": " << verdict.findings.front().detail;
}

// What nearest rounding makes of a result that the run rounded by chance differs somewhere, unless
// the operation loses nothing.
TEST_P(Draws, EveryResultIsDrawn) {
  const Merged merged = merge(run);
  const Replayed seen = replay(*run.graph, merged, all, {});
  std::set<std::string> exact, drawn;
  for (const Node& node : run.graph->nodes) {
    if (!node.how.by_chance) continue;
    for (const std::string& id : node.outputs) {
      (seen.ratios.at(id) == 0 ? exact : drawn).insert(node.op);
    }
  }
  for (const std::string& op : drawn) exact.erase(op);
  EXPECT_GT(drawn.size(), 8U);
  if (std::get<0>(GetParam()) == std::string("llama")) exact.erase("embedding");  // rows of a table
  for (const std::string& op : exact) ADD_FAILURE() << op << " is never rounded by chance";
}

// Half a spacing is too little: the same replay, but for the promise that roundings are by chance.
TEST_P(Draws, ToleranceToNearestIsTooNarrow) {
  Graph nearest = *run.graph;
  std::size_t drawn = 0;
  for (Node& node : nearest.nodes) {
    drawn += node.how.by_chance ? 1 : 0;
    node.how.by_chance = false;
  }
  const Merged merged = merge(run);
  EXPECT_TRUE(replay(*run.graph, merged, all, {}).findings.empty());
  EXPECT_GT(replay(nearest, merged, all, {}).findings.size(), drawn / 2);
}

INSTANTIATE_TEST_SUITE_P(All, Draws,
                         testing::Combine(testing::Values("gpt", "llama"),
                                          testing::Values("dp2,pp2,tp2,sp,zero1", "cp2,tp2,sp",
                                                          "cp2:ring,dp2")),
                         [](const auto& named) { return std::to_string(named.index); });

TEST(StochasticResults, ASingleRankRoundsToNearest) {
  const Start start = start_of_small("llama", "dp1");
  const Trace one = over_ranks(start);
  EXPECT_EQ(merge(one).values.size(), merge(run_reference(start)).values.size());
  for (const auto& [id, tensor] : merge(run_reference(start)).values) {
    EXPECT_EQ(*merge(one).values.at(id), *tensor) << id;
  }
}

// Two layouts that are the same arithmetic otherwise draw apart; the same one draws alike.
TEST(StochasticResults, DrawsAreThoseOfRankAndSeed) {
  const auto loss = [](const std::string& layout) {
    const Start start = start_of_small("gpt", layout);
    return merge(over_ranks(start)).values.at("m0/head/out");
  };
  EXPECT_EQ(*loss("pp2"), *loss("pp2"));
  EXPECT_NE(*loss("pp2"), *loss("dp2"));
}

TEST(StochasticResults, RanksThatWouldHaveToDrawAlikeAreRefused) {
  for (const char* layout : {"tp2", "pp2,recompute", "pp2,recompute:selective"}) {
    EXPECT_THROW(start_of_small("gpt", layout), Failure) << layout;
  }
  EXPECT_THROW(start_of_small("gpt-moe", "dp2"), Failure);
  EXPECT_THROW(start_of_small("llama", "tp8,sp"), Failure) << "four key heads";
  EXPECT_NO_THROW(start_of_small("gpt", "tp2,sp"));
}

TEST(StochasticResults, BoundingEvaluationHasOneBitLess) {
  Evaluation how{2, bf16, bf16};
  EXPECT_EQ(bounding(how).output.unit_roundoff(), bf16.unit_roundoff());
  how.by_chance = true;
  EXPECT_EQ(bounding(how).output.unit_roundoff(), 2 * bf16.unit_roundoff());
  EXPECT_EQ(bounding(how).wire.unit_roundoff(), bf16.unit_roundoff());
}

}  // namespace
}  // namespace plumb::stochastic_results_test
