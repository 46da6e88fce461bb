// Does replay acquit what a promise allows, and name the operation that did something else?
#include "trace/replay.hpp"

#include <gtest/gtest.h>

#include "kernels/backend.hpp"
#include "tests/support/rooms.hpp"
#include "tests/support/runs.hpp"
#include "trace/execute.hpp"
#include "trace/merge.hpp"

namespace plumb {
namespace {

const auto all = [](const std::string&) { return true; };

struct Recorded {
  Graph graph;
  Values values;
};

Recorded run_of(const char* family, const char* layout, const char* backend = "reference") {
  Training run = small_run(family, "bf16", layout);
  run.config.hidden = 1024;  // long enough sums for Eigen to cut them into blocks
  const Trace trace = train_step(run, leaves_of_run(run), Joints(), find_backend(backend));
  return {*trace.graph, merge(trace).values};
}

// The value is not shared with any other run.
void change(Recorded& run, const std::string& id, const std::function<void(Tensor&)>& how) {
  Tensor changed = *run.values.at(id);
  how(changed);
  run.values[id] = std::make_shared<const Tensor>(std::move(changed));
}

TEST(Replay, AHealthyRunIsThePromiseBitForBitInEveryLayout) {
  for (const char* family : {"gpt", "llama"}) {
    for (const char* layout : {"tp2", "dp2,tp2,sp"}) {
      const Recorded run = run_of(family, layout);
      const Replayed seen = replay(run.graph, run.values, all);
      EXPECT_TRUE(seen.findings.empty());
      EXPECT_TRUE(seen.not_judged.empty());
      for (const auto& [id, ratio] : seen.ratios) EXPECT_EQ(ratio, 0) << id;
    }
  }
}

TEST(Replay, AnotherOrderOfSumsStaysInsideTheBound) {
  const Recorded run = run_of("gpt", "tp2", "eigen");
  const Replayed seen = replay(run.graph, run.values, all);
  EXPECT_TRUE(seen.findings.empty());
  double worst = 0;
  for (const auto& [id, ratio] : seen.ratios) worst = std::max(worst, ratio);
  EXPECT_GT(worst, 0);  // the bits do differ
}

TEST(Replay, TheRightValuesInAnotherShapeAreAFinding) {
  const std::string id = "m1/layers.1.mlp.fc1/out";
  Recorded run = run_of("llama", "tp2");
  change(run, id, [](Tensor& x) { std::swap(x.rows, x.cols); });
  const Replayed seen =
      replay(run.graph, run.values, [&](const std::string& i) { return i == id; });
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
      for (const std::string& in : node.inputs) call.inputs.push_back(run.values.at(in).get());
      auto outputs = find_operation(node.op)->evaluate(call);
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        run.values[node.outputs[i]] = std::make_shared<const Tensor>(std::move(outputs[i]));
      }
    }
    behind = behind || node.outputs.front() == id;
  }
  const Replayed seen = replay(run.graph, run.values, all);
  ASSERT_EQ(seen.findings.size(), 1U);
  EXPECT_EQ(seen.findings[0].id, id);
  EXPECT_GT(seen.findings[0].ratio, 1);
}

TEST(Replay, CallsANaNAFinding) {
  Recorded run = run_of("gpt", "tp2");
  change(run, "m0/layers.0.norm1/out",
         [](Tensor& x) { x.values[0] = std::numeric_limits<float>::quiet_NaN(); });
  const Replayed seen = replay(run.graph, run.values, all);
  ASSERT_FALSE(seen.findings.empty());
  EXPECT_EQ(seen.findings[0].id, "m0/layers.0.norm1/out");
}

TEST(Replay, SaysWhatItCouldNotJudgeAndWhy) {
  Recorded run = run_of("gpt", "tp2");
  run.values.erase("m0/layers.0.norm1/out");
  const Replayed seen = replay(run.graph, run.values, all);
  EXPECT_TRUE(seen.findings.empty());
  ASSERT_FALSE(seen.not_judged.empty());
  EXPECT_EQ(seen.not_judged[0],
            "m0/layers.0.attn.qkv/out: its input 'm0/layers.0.norm1/out' was not recorded");
}

}  // namespace
}  // namespace plumb
