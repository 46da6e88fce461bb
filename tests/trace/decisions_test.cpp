// Are choices that a rounding decides followed, and wrong ones found?
#include <gtest/gtest.h>

#include "kernels/backend.hpp"
#include "model/joints/experts.hpp"
#include "model/run/reference.hpp"
#include "tests/support/rooms.hpp"
#include "tests/support/runs.hpp"
#include "trace/check.hpp"
#include "trace/decisions.hpp"
#include "trace/execute.hpp"

namespace plumb::decisions_test {
namespace {

struct Runs {
  Trace reference, candidate;
};

Runs runs_of(const std::string& family, std::uint64_t seed, const Joints& joints = Joints()) {
  const Training one = small_run(family, "bf16", "dp1,tp1", seed);
  const Training many = small_run(family, "bf16", "tp2,sp", seed);
  const Values leaves = leaves_of_run(one);
  return {reference_trace(one, reference(plan(one.config, one.recipe, {}), leaves)),
          train_step(many, leaves, joints, find_backend("reference"))};
}

TEST(Decisions, OfHealthyRunsAreFollowedWhereARoundingDecides) {
  std::size_t forced = 0;
  for (const char* family : {"gpt-moe", "llama-moe"}) {
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      const Runs runs = runs_of(family, seed);
      const Verdict v = check(runs.reference, runs.candidate, {});
      EXPECT_EQ(v.exit_code(), 0) << family << seed << v.blamed;
      EXPECT_EQ(v.decisions, 2U * 4 * 32);  // layers, micro-batches, tokens
      EXPECT_LT(v.forced, v.decisions / 20);
      forced += v.forced;
    }
  }
  EXPECT_GT(forced, 0U);
}

// On the rank that asks, in the first layer: the token whose choice was clearest gets the expert
// that was rated lowest instead of its second.
void choose_wrongly(Joints& joints) {
  joints.router.after_choice.replace([](const Where& w, const Tensor& logits, Tensor& choices) {
    if (w.tp != 0 || w.layer != 0 || w.micro_batch != 1) return;
    std::size_t token = 0;
    float clearest = 0;
    for (std::size_t t = 0; t < choices.rows; ++t) {
      const auto second = static_cast<std::size_t>(choices(t, 1));
      const float least = *std::min_element(logits.row(t), logits.row(t) + logits.cols);
      if (logits(t, second) - least <= clearest) continue;
      clearest = logits(t, second) - least;
      token = t;
    }
    const float* row = logits.row(token);
    choices(token, 1) = static_cast<float>(std::min_element(row, row + logits.cols) - row);
  });
}

TEST(Decisions, AgainstTheirLogitsAreFoundUnderEveryRule) {
  Joints joints;
  choose_wrongly(joints);
  const Runs runs = runs_of("llama-moe", 1, joints);
  for (const std::string rule : {"twins,replay", "twins", "replay", "flat"}) {
    CheckOptions options;
    options.rules = rule == "twins,replay" ? options.rules : std::vector{rule};
    const Verdict v = check(runs.reference, runs.candidate, options);
    EXPECT_EQ(v.exit_code(), 1) << rule;
    EXPECT_EQ(v.blamed, "m1/layers.0.mlp.router/routing") << rule;
    EXPECT_EQ(v.findings.size(), 1U) << rule << v.findings.back().id;  // what follows is as chosen
  }
}

TEST(Decisions, AreCountedGivenThoseBefore) {
  const Training run = small_run("gpt-moe", "bf16");
  const Graph graph = plan(run.config, run.recipe, {});
  const Values values = reference(graph, leaves_of_run(run));
  EXPECT_EQ(decisions_of(graph).size(), 2U * 4);
  EXPECT_EQ(forced(graph, values, values).rows, 0U);
  Values other = values;
  const std::string id = "m2/layers.0.mlp.router/routing";
  Tensor choices = *values.at(id);
  for (float e = 0; choices(7, 1) == values.at(id)->values[15] || choices(7, 1) == choices(7, 0);
       ++e) {
    choices(7, 1) = e;  // one that it had not chosen
  }
  other[id] = std::make_shared<const Tensor>(choices);
  const Forced as_chosen = forced(graph, values, other);
  EXPECT_GE(as_chosen.rows, 1U);
  EXPECT_EQ(*as_chosen.values.at(id), choices);
  EXPECT_EQ(as_chosen.values.at("m1/loss/out"), values.at("m1/loss/out"));  // not made again
  EXPECT_NE(*as_chosen.values.at("m2/loss/out"), *values.at("m2/loss/out"));
  // Of another shape: left alone.
  other[id] = std::make_shared<const Tensor>(1, 2);
  EXPECT_EQ(forced(graph, values, other).rows, 0U);
}

}  // namespace
}  // namespace plumb::decisions_test
