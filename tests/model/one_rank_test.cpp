// Is the model on one rank, bit for bit, what the executor makes of the promise? And on more ranks,
// where nothing is split upstream?
#include <gtest/gtest.h>

#include "kernels/backend.hpp"
#include "tests/support/runs.hpp"
#include "trace/execute.hpp"
#include "trace/merge.hpp"

namespace plumb {
namespace {

bool blocks(const Recipe& recipe) {
  return recipe.operands && recipe.operands->activations.scaling == Scaling::block;
}

class Promise : public testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(Promise, IsKeptBitForBitByTheModelOnOneRank) {
  const auto [family, recipe] = GetParam();
  const Training run = small_run(family, recipe);
  const Values leaves = leaves_of_run(run);
  const Graph graph = plan(run.config, run.recipe, run.layout);

  const Values promised = reference(graph, leaves);
  const Merged made = merge(train_step(run, leaves, Joints(), find_backend("reference")));

  EXPECT_TRUE(made.findings.empty());
  EXPECT_EQ(made.values.size(), promised.size());
  for (const auto& [id, tensor] : promised) {
    ASSERT_TRUE(made.values.contains(id)) << id;
    ASSERT_EQ(*made.values.at(id), *tensor) << id;
  }
}

// Over ranks the model's order of sums is the promised one, so the executor follows it in any
// layout; and where nothing is split upstream, both are the reference.
TEST_P(Promise, IsKeptInEveryLayout) {
  const auto [family, recipe] = GetParam();
  const Training single = small_run(family, recipe);
  const Values leaves = leaves_of_run(single);
  const Graph one = plan(single.config, single.recipe, {});
  const Values alone = reference(one, leaves);
  const std::vector<std::string> all{"dp2,tp2",
                                     "tp4",
                                     "dp2,tp2,sp",
                                     "dp2,pp2,tp2,sp,zero3,recompute",
                                     "dp4",
                                     "pp2",
                                     "dp2,tp2,sp,pp2",
                                     "pp2:1+1,recompute",
                                     "dp2,zero1",
                                     "dp2,tp2,zero2",
                                     "dp4,zero3",
                                     "dp2,pp2,tp2,sp,zero3,recompute:selective",
                                     "cp2",
                                     "cp2:ulysses",
                                     "cp4",
                                     "dp2,cp2,tp2,sp",
                                     "cp2:ulysses,pp2,zero2,recompute"};
  const std::vector<std::string> of_experts{
      "tp2",     "tp4",           "dp2,tp2,sp", "dp2,pp2,tp2,sp,zero3,recompute",
      "dp2,ep2", "dp4,ep2,zero1", "dp4,ep4",    "dp2,ep2,tp2,sp,zero3,pp2,recompute"};
  // Pipelines and shares treat a mixture of experts as they do any layer.
  for (const std::string& layout : single.config.experts > 0 ? of_experts : all) {
    if (layout == "tp4" && std::string(family).starts_with("llama")) continue;  // 2 KV heads
    const Training run = small_run(family, recipe, layout);
    if (run.layout.ep > 1 && blocks(run.recipe)) {
      EXPECT_THROW(plan(run.config, run.recipe, run.layout), Failure) << layout;
      continue;
    }
    const Graph many = plan(run.config, run.recipe, run.layout);
    const std::set<std::string> differs = touched(one, many);
    const Values promised = reference(many, leaves);

    const Merged made = merge(train_step(run, leaves, Joints(), find_backend("reference")));

    EXPECT_TRUE(made.findings.empty()) << layout << made.findings.front().id;
    for (const auto& [id, tensor] : alone) {
      ASSERT_TRUE(made.values.contains(id)) << layout << " " << id;
      if (!differs.contains(id)) {
        ASSERT_EQ(*made.values.at(id), *tensor) << layout << " " << id;
      }
      ASSERT_EQ(*made.values.at(id), *promised.at(id)) << layout << " " << id;
    }
    EXPECT_LT(differs.size(), alone.size());
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Promise,
                         testing::Combine(testing::Values("gpt", "llama", "gpt-moe", "llama-moe"),
                                          testing::Values("fp32", "tf32", "bf16", "bf16-wire32",
                                                          "mxfp8", "fp8-block", "nvfp4",
                                                          "fp8-current")));

}  // namespace
}  // namespace plumb
