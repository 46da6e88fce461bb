// With what a model may have besides (dropout, smooth labels ...): does the model over ranks keep
// the promise bit for bit, in every layout, and does the setting matter at all?
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/backend.hpp"
#include "tests/support/runs.hpp"
#include "trace/execute.hpp"
#include "trace/merge.hpp"

namespace plumb {
namespace {

struct Case {
  const char* name;
  const char* family;
  std::vector<std::pair<int Config::*, int>> settings;
  std::vector<const char*> layouts;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class Settings : public testing::TestWithParam<std::tuple<Case, const char*>> {};

TEST_P(Settings, ArePromisedAndKeptInEveryLayout) {
  const auto& [c, recipe] = GetParam();
  Training run = small_run(c.family, recipe);
  const std::size_t without = plan(run.config, run.recipe, {}).nodes.size();
  for (const auto& [field, value] : c.settings) run.config.*field = value;
  const Values leaves = leaves_of_run(run);
  const Graph one = plan(run.config, run.recipe, {});
  EXPECT_GE(one.nodes.size(), without);
  const Values alone = reference(one, leaves);
  for (const char* layout : c.layouts) {
    run.layout = parse_layout(layout);
    if (run.layout.ep > 1 && by_blocks_or_histories(run.recipe)) continue;
    const Graph many = plan(run.config, run.recipe, run.layout);
    const std::set<std::string> differs = touched(one, many);
    const Values promised = reference(many, leaves);
    const Merged made = merge(train_step(run, leaves, Joints(), find_backend("reference")));
    EXPECT_TRUE(made.findings.empty()) << layout << " " << made.findings.front().id;
    for (const auto& [id, tensor] : alone) {
      ASSERT_TRUE(made.values.contains(id)) << layout << " " << id;
      ASSERT_EQ(*made.values.at(id), *promised.at(id)) << layout << " " << id;
      if (differs.contains(id)) continue;
      ASSERT_EQ(*promised.at(id), *tensor) << layout << " " << id;
    }
  }
}

std::vector<Case> cases() {
  const std::vector<const char*> dense{"dp1",       "tp2,sp",
                                       "dp2,zero3", "cp2,tp2,sp,recompute",
                                       "pp2",       "dp2,pp2,tp2,sp,zero3,recompute:uniform2"};
  return {{"dropout", "gpt", {{&Config::dropout, 30}}, dense},
          {"dropout_of_experts", "llama-moe", {{&Config::dropout, 30}}, {"dp4,ep2,tp2,sp"}},
          {"label_smoothing", "llama", {{&Config::label_smoothing, 20}}, dense}};
}

INSTANTIATE_TEST_SUITE_P(Of, Settings,
                         testing::Combine(testing::ValuesIn(cases()),
                                          testing::Values("bf16", "fp32", "fp8-current", "nvfp4")),
                         [](const auto& of) {
                           std::string name = std::get<0>(of.param).name;
                           name += std::string("_") + std::get<1>(of.param);
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

// The mask is one of the step and the micro-batch, of the module, and of nothing else.
TEST(Dropout, DrawsAnotherMaskForEachModuleMicroBatchStepAndSeed) {
  Training run = small_run("gpt", "fp32");
  run.config.dropout = 50;
  const auto mask_of = [&](const std::string& id) {
    std::vector<bool> mask;
    const Values step = reference(plan(run.config, run.recipe, {}, run.step), leaves_of_run(run));
    for (const float x : step.at(id)->values) mask.push_back(x != 0);
    return mask;
  };
  std::vector<std::vector<bool>> masks{
      mask_of("m0/embedding.dropout/out"), mask_of("m1/embedding.dropout/out"),
      mask_of("m0/layers.0.attn.dropout/out"), mask_of("m0/layers.1.attn.dropout/out"),
      mask_of("m0/layers.0.mlp.dropout/out")};
  const std::vector<bool> of_gradient = mask_of("m0/layers.0.attn.dropout/grad_in");
  std::size_t moved = 0;
  for (std::size_t i = 0; i < of_gradient.size(); ++i) {
    EXPECT_TRUE(masks[2][i] || !of_gradient[i]) << i;  // tokens that do not count have none
    moved += of_gradient[i] ? 1 : 0;
  }
  EXPECT_GT(moved, of_gradient.size() / 4);
  run.step = 2;
  masks.push_back(mask_of("m0/embedding.dropout/out"));
  run.config.seed = 2;
  masks.push_back(mask_of("m0/embedding.dropout/out"));
  for (std::size_t i = 0; i < masks.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(masks[i], masks[j]) << i << " " << j;
  }
}

}  // namespace
}  // namespace plumb
