// Is the model on one rank, bit for bit, what the executor makes of the promise? And on more ranks,
// where nothing is split upstream?
#include <gtest/gtest.h>

#include "kernels/backend.hpp"
#include "tests/support/runs.hpp"
#include "trace/execute.hpp"
#include "trace/merge.hpp"

namespace plumb {
namespace {

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

TEST_P(Promise, IsKeptOnFourRanksWhereNothingIsSplitUpstream) {
  const auto [family, recipe] = GetParam();
  for (const char* layout : {"dp2,tp2", "dp2,tp2,sp", "tp4", "dp4"}) {
    if (std::string(layout) == "tp4" && std::string(family) == "llama") continue;  // 2 KV heads
    const Training run = small_run(family, recipe, layout);
    const Values leaves = leaves_of_run(run);
    const Graph one = plan(run.config, run.recipe, {});
    const Graph many = plan(run.config, run.recipe, run.layout);
    const std::set<std::string> differs = touched(one, many);
    const Values promised = reference(many, leaves);

    const Merged made = merge(train_step(run, leaves, Joints(), find_backend("reference")));

    EXPECT_TRUE(made.findings.empty()) << layout << made.findings.front().id;
    const Values single = reference(one, leaves);
    for (const auto& [id, tensor] : single) {
      ASSERT_TRUE(made.values.contains(id)) << id;
      if (!differs.contains(id)) {
        ASSERT_EQ(*made.values.at(id), *tensor) << layout << id;
      }
      // The model's order of sums is the promised one, so the executor follows it in any layout.
      ASSERT_EQ(*made.values.at(id), *promised.at(id)) << layout << " " << id;
    }
    EXPECT_LT(differs.size(), single.size());
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Promise,
                         testing::Combine(testing::Values("gpt", "llama"),
                                          testing::Values("fp32", "tf32", "bf16", "bf16-wire32",
                                                          "mxfp8", "fp8-block", "nvfp4",
                                                          "fp8-current")));

}  // namespace
}  // namespace plumb
