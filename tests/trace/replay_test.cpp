// Does replay acquit what a promise allows, and name the operation that did something else?
#include "trace/replay.hpp"

#include <gtest/gtest.h>

#include "kernels/backend.hpp"
#include "tests/support/rooms.hpp"
#include "tests/support/runs.hpp"
#include "trace/execute.hpp"
#include "trace/merge.hpp"

namespace plumb::replay_test {
namespace {

const auto all = [](const std::string&) { return true; };

struct Recorded {
  Graph graph;
  Merged merged;
};

Recorded run_of(const char* family, const char* layout, const char* backend = "reference") {
  Training run = small_run(family, "bf16", layout);
  run.config.hidden = 1024;  // long enough sums for Eigen to cut them into blocks
  const Trace trace = train_step(run, leaves_of_run(run), Joints(), find_backend(backend));
  return {*trace.graph, merge(trace)};
}

// The value is not shared with any other run.
void change(Recorded& run, const std::string& id, const std::function<void(Tensor&)>& how) {
  Tensor changed = *run.merged.values.at(id);
  how(changed);
  run.merged.values[id] = std::make_shared<const Tensor>(std::move(changed));
}

TEST(Replay, AHealthyRunIsThePromiseBitForBitInEveryLayout) {
  for (const char* family : {"gpt", "llama"}) {
    for (const char* layout : {"tp2", "dp2,tp2,sp"}) {
      const Recorded run = run_of(family, layout);
      const Replayed seen = replay(run.graph, run.merged, all);
      EXPECT_TRUE(seen.findings.empty());
      EXPECT_TRUE(seen.not_judged.empty());
      for (const auto& [id, ratio] : seen.ratios) EXPECT_EQ(ratio, 0) << id;
    }
  }
}

TEST(Replay, AnotherOrderOfSumsStaysInsideTheBound) {
  const Recorded run = run_of("gpt", "tp2", "eigen");
  const Replayed seen = replay(run.graph, run.merged, all);
  EXPECT_TRUE(seen.findings.empty());
  double worst = 0;
  for (const auto& [id, ratio] : seen.ratios) worst = std::max(worst, ratio);
  EXPECT_GT(worst, 0);  // the bits do differ
}

// A parameter that misses its update is within a spacing of it: no tolerance sees that, but the
// draws say to which neighbour it goes.
TEST(Replay, WherePromisedDrawsRoundEachBitIsPromised) {
  const Training training = small_run("gpt", "bf16-stochastic", "tp2");
  const Trace trace =
      train_step(training, leaves_of_run(training), Joints(), find_backend("reference"));
  Recorded run{*trace.graph, merge(trace)};
  EXPECT_TRUE(replay(run.graph, run.merged, all).findings.empty());
  const std::string id = "final_norm.weight/param";
  const Tensor before = *run.merged.values.at(id + "@previous");
  ASSERT_NE(*run.merged.values.at(id), before);
  change(run, id, [&](Tensor& x) { x = before; });
  const Replayed seen = replay(run.graph, run.merged, all);
  ASSERT_EQ(seen.findings.size(), 1U);
  EXPECT_EQ(seen.findings[0].id, id);
  EXPECT_NE(seen.findings[0].detail.find("draws"), std::string::npos) << seen.findings[0].detail;
}

TEST(Replay, TheRightValuesInAnotherShapeAreAFinding) {
  const std::string id = "m1/layers.1.mlp.fc1/out";
  Recorded run = run_of("llama", "tp2");
  change(run, id, [](Tensor& x) { std::swap(x.rows, x.cols); });
  const Replayed seen =
      replay(run.graph, run.merged, [&](const std::string& i) { return i == id; });
  ASSERT_EQ(seen.findings.size(), 1U);
  EXPECT_EQ(seen.findings[0].statistic, "structure");
}

TEST(Replay, NamesTheOneOperationThatWasChangedAndNothingBehindIt) {
  const std::string id = "m1/layers.1.mlp.fc1/out";
  Recorded run = run_of("llama", "tp2");
  // What lies behind is computed from the changed values, as a run would have done.
  change(run, id, [](Tensor& x) { x.values[5] += 0.25F; });
  bool behind = false;
  RealRoundings roundings;
  for (const Node& node : run.graph.nodes) {
    if (behind) {
      Call<float> call{{}, node.attributes, node.how, roundings};
      for (const std::string& in : node.inputs)
        call.inputs.push_back(run.merged.values.at(in).get());
      auto outputs = find_operation(node.op)->evaluate(call);
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        run.merged.values[node.outputs[i]] = std::make_shared<const Tensor>(std::move(outputs[i]));
      }
    }
    behind = behind || node.outputs.front() == id;
  }
  const Replayed seen = replay(run.graph, run.merged, all);
  ASSERT_EQ(seen.findings.size(), 1U);
  EXPECT_EQ(seen.findings[0].id, id);
  EXPECT_GT(seen.findings[0].ratio, 1);
  EXPECT_NE(seen.findings[0].detail.find(seen.findings[0].term), std::string::npos);
  EXPECT_FALSE(seen.findings[0].term.empty());
}

double ratio_of(const Replayed& seen, const std::string& op, const Graph& graph) {
  double worst = 0;
  for (const Node& node : graph.nodes) {
    const auto found = seen.ratios.find(node.outputs.front());
    if (node.op == op && found != seen.ratios.end()) worst = std::max(worst, found->second);
  }
  return worst;
}

TEST(Replay, JudgesProductsByTheCardOfAMatrixUnitAndAllElseByTheirOwnBounds) {
  Recorded run = run_of("llama", "dp2", "eigen");
  change(run, "m0/layers.0.norm1/out", [](Tensor& x) { x.values[5] *= 1.0078125F; });
  const Replayed alone = replay(run.graph, run.merged, all);
  const Replayed by_card = replay(run.graph, run.merged, all, {.machine = find_machine("h100")});
  EXPECT_GT(ratio_of(alone, "gemm", run.graph), 0);
  EXPECT_NE(ratio_of(by_card, "gemm", run.graph), ratio_of(alone, "gemm", run.graph));
  EXPECT_GT(ratio_of(alone, "rmsnorm", run.graph), 0);
  EXPECT_EQ(ratio_of(by_card, "rmsnorm", run.graph), ratio_of(alone, "rmsnorm", run.graph));
}

TEST(Replay, DoesNotJudgeWhatACardRefusesAndSaysWhy) {
  Recorded run = run_of("llama", "dp2");
  const std::string id = "m0/layers.0.attn.core/out";
  change(run, id, [](Tensor& x) { x.values[5] += 0.25F; });
  const ReplayOptions pairwise{.machine = find_machine("ieee-pairwise")};
  const Replayed seen = replay(run.graph, run.merged, all, pairwise);
  EXPECT_FALSE(seen.ratios.contains(id));
  const std::string why = id + ": machine 'ieee-pairwise': its sums are pairwise";
  EXPECT_TRUE(std::ranges::any_of(seen.not_judged, [&](const NotJudged& one) {
    return one.text().starts_with(why);
  })) << why;
}

TEST(Replay, ByChanceHasSmallerTolerancesAndStillAcquits) {
  const Recorded run = run_of("gpt", "tp2", "eigen");
  const Replayed never = replay(run.graph, run.merged, all);
  const Replayed seldom = replay(run.graph, run.merged, all, {.mode = Mode::probabilistic});
  EXPECT_TRUE(seldom.findings.empty());
  EXPECT_GT(ratio_of(seldom, "gemm", run.graph), ratio_of(never, "gemm", run.graph));
  EXPECT_THROW(replay(run.graph, run.merged, all, {.mode = Mode::moments}), Failure);
}

TEST(Replay, WritesAsManyDigitsAsShowTheDifference) {
  Recorded run = run_of("gpt", "tp2");
  change(run, "loss/out", [](Tensor& x) { x.values[0] *= 1 + 0x1p-18F; });
  const Replayed seen = replay(run.graph, run.merged, all);
  ASSERT_FALSE(seen.findings.empty());
  const std::string& said = seen.findings[0].detail;
  const std::size_t number = said.find("gives ") + 6, held = said.find("the run has ") + 12;
  EXPECT_NE(said.substr(number, 9), said.substr(held, 9)) << said;
  EXPECT_NEAR(std::stod(said.substr(number)), std::stod(said.substr(held)), 1e-3);
}

TEST(Replay, CallsANaNAFinding) {
  Recorded run = run_of("gpt", "tp2");
  change(run, "m0/layers.0.norm1/out",
         [](Tensor& x) { x.values[0] = std::numeric_limits<float>::quiet_NaN(); });
  const Replayed seen = replay(run.graph, run.merged, all);
  ASSERT_FALSE(seen.findings.empty());
  EXPECT_EQ(seen.findings[0].id, "m0/layers.0.norm1/out");
}

TEST(Replay, CallsAnIndexBeyondItsTableAFinding) {
  Recorded run = run_of("gpt", "tp2");
  change(run, "m1/data/ids", [](Tensor& x) { x.values[3] = 1e9F; });
  const Replayed seen = replay(run.graph, run.merged, all);
  ASSERT_FALSE(seen.findings.empty());
  EXPECT_EQ(seen.findings[0].id, "m1/embedding/out");
  EXPECT_NE(seen.findings[0].detail.find("embedding: an id is 1000000000,"), std::string::npos);
}

TEST(Replay, SaysWhatItCouldNotJudgeAndWhy) {
  Recorded run = run_of("gpt", "tp2");
  run.merged.values.erase("m0/layers.0.norm1/out");
  const Replayed seen = replay(run.graph, run.merged, all);
  EXPECT_TRUE(seen.findings.empty());
  ASSERT_FALSE(seen.not_judged.empty());
  EXPECT_EQ(seen.not_judged[0].text(),
            "m0/layers.0.attn.qkv/out: its input 'm0/layers.0.norm1/out' was not recorded");
}

}  // namespace
}  // namespace plumb::replay_test
