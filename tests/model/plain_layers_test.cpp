// Layers that a recipe leaves out of its casts: is the promise kept in every layout, and are the
// layers those of the whole model wherever they lie?
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "kernels/backend.hpp"
#include "model/joints/layers.hpp"
#include "model/plan/verify.hpp"
#include "model/run/start.hpp"
#include "tests/support/rooms.hpp"
#include "tests/support/runs.hpp"
#include "trace/check.hpp"
#include "trace/execute.hpp"
#include "trace/merge.hpp"

namespace plumb::plain_layers_test {
namespace {

// Three layers, of which the casts leave out the first and the last.
Training run_of(const std::string& family, const std::string& recipe, const std::string& layout) {
  Training run = small_run(family, recipe);
  run.config.layers = 3;
  std::ifstream file(PLUMB_SOURCE_DIR "/model/recipes/" + recipe + ".json");
  nlohmann::json card = nlohmann::json::parse(file);
  card["id"] = "mine";
  card["operands"]["plain_layers"] = {1, 1};
  run.recipe = recipe_from_json(card.dump(), "mine.json");
  run.layout = parse_layout(layout);
  return run;
}

using Case = std::tuple<const char*, const char*, const char*>;  // family, recipe, layout
class PlainLayers : public testing::TestWithParam<Case> {};

TEST_P(PlainLayers, TakeTheirOperandsAsComputed) {
  const auto [family, recipe, layout] = GetParam();
  const Training run = run_of(family, recipe, layout);
  const Values leaves = leaves_of_run(run);
  const Values promised = reference(plan(run.config, run.recipe, run.layout), leaves);
  const Merged made = merge(train_step(run, leaves, Joints(), find_backend("reference")));
  ASSERT_TRUE(made.findings.empty()) << made.findings.front().id;
  std::set<int> cast;
  for (const auto& [id, tensor] : promised) {
    ASSERT_TRUE(made.values.contains(id)) << id;
    ASSERT_EQ(*made.values.at(id), *tensor) << id;
    const std::size_t of_layer = id.find("layers.");
    if (id.find("operand") != id.npos && of_layer != id.npos)
      cast.insert(std::stoi(id.substr(of_layer + 7)));
  }
  EXPECT_EQ(cast, std::set<int>{1});
  EXPECT_EQ(made.values.size(), promised.size());
}

TEST_P(PlainLayers, OfAHealthyRunAreAcquitted) {
  const auto [family, recipe, layout] = GetParam();
  const Training run = run_of(family, recipe, layout);
  const Start start{run, leaves_of_run(run)};
  const Trace alone = run_reference(start);
  const Verdict healthy = check(alone, run_candidate(start).trace, {});
  EXPECT_TRUE(healthy.findings.empty())
      << healthy.findings.front().id << ": " << healthy.findings.front().detail;
}

INSTANTIATE_TEST_SUITE_P(Of, PlainLayers,
                         testing::Values(Case{"gpt", "fp8-current", "tp2"},
                                         Case{"llama", "fp8-delayed", "dp2,tp2,sp"},
                                         Case{"gpt", "fp8-block", "dp2,pp2:1+2,zero3"},
                                         Case{"llama", "nvfp4", "cp2,pp2:2+1,recompute"},
                                         Case{"gpt-moe", "fp8-current", "dp2,ep2"},
                                         Case{"llama-moe", "fp8-delayed", "dp2,ep2,zero1"}));

// By its number in a stage: layer 1 is then a first one, and layer 2 is not the last. What a rank made
// without having promised it is a finding like what it left out.
TEST(PlainLayersOfAModel, ThatAreCountedByStageAreSeen) {
  const Training run = run_of("gpt", "fp8-current", "pp2:1+2");
  const Start start{run, leaves_of_run(run)};
  Joints joints;
  joints.linear.layer.replace([](const Where&, int in_stage, int) { return in_stage; });
  const Trace reference = run_reference(start), broken = run_candidate(start, joints).trace;
  const Verdict verdict = check(reference, merge(reference), broken, merge_verified(broken), {});
  EXPECT_EQ(verdict.blamed, "layers.1.attn.qkv.weight/operand_scale");
  EXPECT_EQ(verdict.blamed_by, "structure");
  const auto more =
      std::ranges::find(verdict.findings, "layers.2.attn.qkv.weight/operand_scale", &Finding::id);
  ASSERT_NE(more, verdict.findings.end());
  EXPECT_EQ(more->statistic, "structure");
}

// Also where nobody has held the pieces of ranks against the promise.
TEST(PlainLayersOfAModel, ThatAreCastBesidesAreSeen) {
  const Training run = run_of("gpt", "fp8-current", "pp2:1+2");
  const Start start{run, leaves_of_run(run)};
  Joints joints;
  joints.linear.layer.replace(
      [](const Where&, int, int promised) { return std::min(promised, 1); });
  const Verdict verdict = check(run_reference(start), run_candidate(start, joints).trace, {});
  EXPECT_EQ(verdict.exit_code(), 1);
  const auto more = [](const Finding& f) {
    return f.id == "layers.2.attn.qkv.weight/operand_scale" && f.statistic == "structure";
  };
  EXPECT_EQ(std::ranges::count_if(verdict.findings, more), 1);
}

// Histories are kept for the promised layers, so where there are any nobody is asked.
TEST(PlainLayersOfAModel, AreThePromisedOnesWhereScalesHaveHistories) {
  const Training run = run_of("gpt", "fp8-delayed", "pp2:1+2");
  const Start start{run, leaves_of_run(run)};
  Joints joints;
  joints.linear.layer.replace([](const Where&, int in_stage, int) { return in_stage; });
  EXPECT_FALSE(run_candidate(start, joints).reached);
}

// What runs, and what does not: the head has its casts, and all layers may be left out.
TEST(PlainLayersOfAModel, MayBeAllOfThem) {
  Training run = run_of("llama", "fp8-current", "dp1");
  run.recipe.operands.value().plain_first = 3;
  for (const auto& [id, tensor] :
       reference(plan(run.config, run.recipe, run.layout), leaves_of_run(run))) {
    if (id.find("operand") == id.npos) continue;
    EXPECT_TRUE(id.find("head") != id.npos) << id;
  }
  EXPECT_NE(run.recipe.casts_of(run.config, "head.weight"), nullptr);
  EXPECT_EQ(run.recipe.casts_of(run.config, "layers.1.mlp.fc1"), nullptr);
}

}  // namespace
}  // namespace plumb::plain_layers_test
