// Is the model on one rank, bit for bit, what the executor makes of the promise? And on more ranks,
// where nothing is split upstream?
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/backend.hpp"
#include "model/joints/optimizer.hpp"
#include "model/run/reference.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/rooms.hpp"
#include "tests/support/runs.hpp"
#include "trace/check.hpp"
#include "trace/execute.hpp"
#include "trace/merge.hpp"

namespace plumb::one_rank_test {
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

// All of them for the simplest recipe and for the one with most to it; for the others those that
// between them slice every axis.
std::vector<std::string> layouts_for(const std::string& recipe) {
  if (recipe == "bf16" || recipe == "nvfp4") {
    return {"dp2,tp2",
            "dp2,tp2,sp",
            "tp4",
            "dp4",
            "pp2",
            "dp2,tp2,sp,pp2",
            "pp2:1+1,recompute",
            "dp2,zero1,predivide4",
            "dp2,tp2,zero2",
            "dp4,zero3",
            "dp4,zero3:2",
            "dp4,tp2,zero2:2,overlap:3,predivide8",
            "dp2,pp2,tp2,sp,zero3,recompute:selective",
            "cp2",
            "cp2:ulysses",
            "cp2:ring",
            "dp2,cp4:ring,tp2,sp,overlap:3",
            "cp2:ring,pp2,zero1,recompute:selective",
            "cp4",
            "dp2,cp2,tp2,sp",
            "cp2:ulysses,pp2,zero2,recompute",
            "dp2,pp2,zero3,offload,overlap:5",
            "dp2,runs2,pp2,zero2,overlap:3",
            "tp2,recompute:uniform2,split",
            "tp2,pp2,recompute,split,offload,overlap:2,runs4"};
  }
  return {"tp4", "dp2,cp2,tp2,sp", "dp2,tp2,zero2", "dp2,pp2,tp2,sp,zero3,recompute:selective"};
}

bool is_in_blocks(const Recipe& recipe) {
  return recipe.operands && recipe.operands->weights.scaling == Scaling::block;
}

// Over ranks the model's order of sums is the promised one, so the executor follows it in any
// layout; and where nothing is split upstream, both are the reference.
TEST_P(Promise, IsKeptInEveryLayout) {
  const auto [family, recipe] = GetParam();
  const Training single = small_run(family, recipe);
  const Values leaves = leaves_of_run(single);
  const Graph one = plan(single.config, single.recipe, {});
  const Values alone = reference(one, leaves);
  const std::vector<std::string> of_experts{"tp4",
                                            "dp2,tp2,sp",
                                            "dp2,pp2,tp2,sp,zero3,recompute",
                                            "dp4,ep4",
                                            "dp4,ep2,zero1,predivide2",
                                            "tp2,sp,etp1",
                                            "dp2,ep2,tp2,sp,etp1,pp2,zero3,recompute",
                                            "dp2,ep2,cp2:ring,tp2,sp,etp1,overlap:3",
                                            "dp4,zero3:2",
                                            "dp2,ep2,tp2,sp,zero3,pp2,recompute",
                                            "cp2",
                                            "cp2:ulysses,pp2",
                                            "dp2,cp4:ring,tp2,sp,overlap:3",
                                            "dp4,cp2,ep2",
                                            "dp2,cp2:ring,tp2,sp,ep2,zero3,pp2,recompute"};
  // Pipelines and shares treat a mixture of experts as they do any layer.
  for (const auto& layout : some_of(single.config.experts > 0 ? of_experts : layouts_for(recipe))) {
    if (layout == "tp4" && std::string(family).starts_with("llama")) continue;  // 2 KV heads
    const Training run = small_run(family, recipe, layout);
    if (layout.find("etp1") != layout.npos && is_in_blocks(run.recipe)) continue;  // refused
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

// What a step leaves to the next: moments, histories, loss scales, parameters without masters.
TEST(PromiseOfLaterSteps, IsKeptFromTheStateThatAStepLeaves) {
  for (const char* recipe : {"fp16", "bf16-pure", "bf16-stochastic", "fp8-delayed"}) {
    Training run = small_run("gpt", recipe);
    const Values first = reference(plan(run.config, run.recipe, {}), leaves_of_run(run));
    Values leaves = next_state(run.config, run.recipe, first);
    run.step = 2;
    leaves.merge(step_data(run.config, small_text(), 2));
    for (const char* layout : {"dp2,tp2,sp", "tp2,zero3,dp2", "tp2,zero1,dp2", "pp2"}) {
      run.layout = parse_layout(layout);
      const Values promised = reference(plan(run.config, run.recipe, run.layout, 2), leaves);
      const Merged made = merge(train_step(run, leaves, Joints(), find_backend("reference")));
      EXPECT_TRUE(made.findings.empty()) << recipe << layout << made.findings.front().id;
      for (const auto& [id, tensor] : promised) {
        ASSERT_EQ(*made.values.at(id), *tensor) << recipe << " " << layout << " " << id;
      }
    }
  }
}

bool finite(const Tensor& x) {
  return std::ranges::all_of(x.values, [](float v) { return std::isfinite(v); });
}

TEST(PromiseOfLaterSteps, LeavesOutAStepWhoseGradientsLeaveTheirRange) {
  Training run = small_run("gpt", "fp16", "dp2,tp2,sp");
  Values leaves = leaves_of_run(run);
  leaves["loss_scale/scale@previous"] = std::make_shared<const Tensor>(1, 1, 0x1p40F);
  const Graph graph = plan(run.config, run.recipe, run.layout);
  const Values promised = reference(graph, leaves);
  const Trace trace = train_step(run, leaves, Joints(), find_backend("reference"));
  const Merged made = merge(trace);
  std::size_t not_finite = 0;
  for (const auto& [id, tensor] : promised) {
    ASSERT_EQ(finite(*made.values.at(id)), finite(*tensor)) << id;
    if (finite(*tensor)) {
      ASSERT_EQ(*made.values.at(id), *tensor) << id;
    } else {
      ++not_finite;
    }
  }
  EXPECT_GT(not_finite, 10U);
  EXPECT_EQ(made.values.at("loss_scale/found_inf")->values[0], 1);
  EXPECT_EQ(made.values.at("loss_scale/scale")->values[0], 0x1p39F);
  for (const StateEntry& k : state_entries(run.config, run.recipe)) {
    if (!k.like_it) continue;
    EXPECT_EQ(*made.values.at(k.id), *leaves.at(k.id + "@previous")) << k.id;
  }
  // Nobody is accused, here or by a reference that leaves it out as well.
  const Training single{run.config, run.recipe, {}, 1};
  const Trace alone = reference_trace(single, reference(plan(run.config, run.recipe, {}), leaves));
  const Verdict verdict = check(alone, trace, {});
  EXPECT_TRUE(verdict.findings.empty())
      << verdict.findings.front().id << ": " << verdict.findings.front().detail;
}

TEST(PromiseOfLaterSteps, AStepThatOneRankDoesNotLeaveOutIsSeen) {
  Training run = small_run("gpt", "fp16", "dp2");
  Values leaves = leaves_of_run(run);
  leaves["loss_scale/scale@previous"] = std::make_shared<const Tensor>(1, 1, 0x1p40F);
  const Training single{run.config, run.recipe, {}, 1};
  const Trace alone = reference_trace(single, reference(plan(run.config, run.recipe, {}), leaves));
  Joints joints;
  joints.optimizer.skips.replace([](const Where& w, bool, bool any) { return any && w.dp == 0; });
  const Verdict verdict =
      check(alone, train_step(run, leaves, joints, find_backend("reference")), {});
  ASSERT_FALSE(verdict.findings.empty());
  EXPECT_EQ(verdict.blamed, "loss_scale/found_inf");
}

// What a layout has of its own: a history over its ranks, scales of blocks that begin anew.
TEST(PromiseOfScales, AHistoryThatIsNotReducedIsSeen) {
  const Training run = small_run("llama", "fp8-delayed", "dp2,tp2");
  const Values leaves = leaves_of_run(run);
  const Training single{run.config, run.recipe, {}, 1};
  const Trace alone = reference_trace(single, reference(plan(run.config, run.recipe, {}), leaves));
  for (const std::string_view axis : {"dp", "tp"}) {
    Joints joints;
    joints.scaling.reduces_over.replace(
        [axis](const Where&, std::string_view asked) { return asked != axis; });
    const Verdict verdict =
        check(alone, train_step(run, leaves, joints, find_backend("reference")), {});
    ASSERT_FALSE(verdict.findings.empty()) << axis;
    EXPECT_TRUE(verdict.blamed.ends_with("_history")) << axis << " " << verdict.blamed;
    EXPECT_TRUE(joints.reached());
  }
}

TEST(PromiseOfScales, AScaleThatOnlyThisLayoutHasIsReplayed) {
  const Training run = small_run("llama", "fp8-block", "tp2");
  const Values leaves = leaves_of_run(run);
  const Training single{run.config, run.recipe, {}, 1};
  const Trace alone = reference_trace(single, reference(plan(run.config, run.recipe, {}), leaves));
  Trace trace = train_step(run, leaves, Joints(), find_backend("reference"));
  CheckOptions replay;
  replay.rules = {"replay"};
  const Verdict healthy = check(alone, trace, replay);
  ASSERT_TRUE(healthy.findings.empty()) << healthy.findings.front().id;
  const std::string id = "m1/layers.0.attn.proj/operand_scale";
  Shard& scale = trace.ranks[1].shards.at(id);
  ASSERT_NE(scale.placement.cols, alone.ranks[0].shards.at(id).placement.cols);
  scale.values.values[3] *= 2;
  const Verdict verdict = check(alone, trace, replay);
  ASSERT_FALSE(verdict.findings.empty());
  EXPECT_EQ(verdict.blamed, id);
}

// The shipped recipe divides; of one's own the default are reciprocals.
TEST(PromiseOfScales, NestedByReciprocalsIsKeptToo) {
  for (const char* layout : {"dp1,tp1", "dp2,tp2,sp", "cp2,tp2,sp", "dp2,pp2,zero3,recompute"}) {
    Training run = small_run("llama", "nvfp4", layout);
    const Values leaves = leaves_of_run(run);
    const Values divided = reference(plan(run.config, run.recipe, run.layout), leaves);
    OperandCasts& casts = *run.recipe.operands;
    for (OperandCast* cast : {&casts.activations, &casts.weights, &casts.gradients}) {
      cast->rule = ScaleRule::nested_reciprocal;
    }
    const Values promised = reference(plan(run.config, run.recipe, run.layout), leaves);
    const Merged made = merge(train_step(run, leaves, Joints(), find_backend("reference")));
    EXPECT_TRUE(made.findings.empty()) << layout << made.findings.front().id;
    for (const auto& [id, tensor] : promised) {
      ASSERT_TRUE(made.values.contains(id)) << layout << " " << id;
      ASSERT_EQ(*made.values.at(id), *tensor) << layout << " " << id;
    }
    EXPECT_TRUE(std::ranges::any_of(promised, [&](const auto& value) {
      return value.first.ends_with("/operand") && *value.second != *divided.at(value.first);
    })) << layout;
  }
}

const auto name_of_both = [](const auto& of) {
  std::string name = std::get<0>(of.param);
  name += std::string("_") + std::get<1>(of.param);
  std::ranges::replace(name, '-', '_');
  std::ranges::replace(name, '+', '_');
  std::ranges::replace(name, '=', '_');
  return name;
};
INSTANTIATE_TEST_SUITE_P(Of, Promise,
                         testing::Combine(testing::Values("gpt", "llama", "gpt-moe", "llama-moe"),
                                          testing::Values("fp32", "tf32", "bf16", "bf16-wire32",
                                                          "bf16-stream32", "fp16", "bf16-pure",
                                                          "bf16-stochastic", "fp8-delayed", "mxfp8",
                                                          "fp8-block", "nvfp4", "fp8-current")),
                         name_of_both);
INSTANTIATE_TEST_SUITE_P(OfChoices, Promise,
                         testing::Combine(testing::Values("gpt+sinks+qk_norm+documents=3",
                                                          "llama+sinks+qk_norm+documents=3"),
                                          testing::Values("fp32", "bf16", "nvfp4", "fp8-current",
                                                          "bf16-stream32")),
                         name_of_both);
INSTANTIATE_TEST_SUITE_P(OfLatents, Promise,
                         testing::Combine(testing::Values("gpt+latent=12+shared_key=4",
                                                          "llama+latent=12+shared_key=4"),
                                          testing::Values("fp32", "bf16", "fp8-delayed",
                                                          "fp8-block", "nvfp4", "fp8-current")),
                         name_of_both);

}  // namespace
}  // namespace plumb::one_rank_test
