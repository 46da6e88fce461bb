// With what a model may have besides, on trained weights: are healthy runs left alone, in layouts
// that share out everything, and is a bug of the extra head blamed?
#include <gtest/gtest.h>

#include "experiments/trial.hpp"
#include "model/data/text.hpp"
#include "model/run/training.hpp"
#include "tests/support/rooms.hpp"
#include "tests/support/runs.hpp"

namespace plumb::settings_test {
namespace {

Start trained_start(const std::string& model) {
  const Training run = small_run(model, "bf16");
  Start start = start_of(run.config, run.recipe, run.layout, default_text());
  return trained(std::move(start), default_text(), 60, [](int, double) {});
}

void expect_passes(Start start, const char* layout) {
  start.run.layout = parse_layout(layout);
  const Verdict verdict = check(run_reference(start), run_candidate(start).trace, {});
  EXPECT_EQ(verdict.exit_code(), 0) << layout << " " << verdict.blamed;
}

TEST(SettingsOnTrainedWeights, OfDenseModelsPassAndABugIsBlamed) {
  Start start = trained_start("gpt+mtp+dropout=0.1+label_smoothing=0.1");
  expect_passes(start, "cp2,tp2,sp");
  expect_passes(start, "dp2,pp2,zero3,recompute");
  start.run.layout = parse_layout("dp2");
  const Bug& bug = find_bug("mtp-label-double-shift");
  EXPECT_EQ(run_trial(start, bug, {}, {}).broken.blamed, bug.bites_at(start.run.config));
}

TEST(SettingsOnTrainedWeights, OfExpertsPassAndABugIsBlamed) {
  Start start = trained_start("llama-moe+mtp+capacity=1.1+balance_bias=0.005+dropout=0.1");
  bool moved = false;
  for (const float bias : start.leaves.at("layers.0.mlp.router/bias@previous")->values) {
    moved = moved || bias != 0;
  }
  EXPECT_TRUE(moved);
  expect_passes(start, "tp2,sp");
  expect_passes(start, "dp4,ep2,pp2,zero3");
  expect_passes(start, "dp2,cp2:ring,tp2,sp,ep2");
  start.run.layout = parse_layout("tp2,sp");
  const Bug& bug = find_bug("capacity-of-local-tokens");
  EXPECT_EQ(run_trial(start, bug, {}, {}).broken.blamed, bug.bites_at(start.run.config));
}

// The weights of a trace decide the model, not how it is trained on.
TEST(SettingsOfALoadedState, AreTheCallersWhereTheWeightsDoNotDecide) {
  const Training earlier = small_run("llama+mtp+dropout=0.1+label_smoothing=0.05", "bf16");
  const std::string text = small_text();
  const Trace trace = run_reference(start_of(earlier.config, earlier.recipe, {}, text));
  const Config asked = small_run("llama+dropout=0.3", "bf16").config;
  const Config now = start_of(asked, earlier.recipe, {}, text, &trace).run.config;
  EXPECT_EQ(now.mtp, 1);
  EXPECT_EQ(now.dropout, 300000);  // millionths
  EXPECT_EQ(now.label_smoothing, 0);
}

}  // namespace
}  // namespace plumb::settings_test
