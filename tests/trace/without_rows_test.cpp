// Is what follows from a rare flip in one row told from what is wrong by itself?
#include "trace/without_rows.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "kernels/backend.hpp"
#include "model/run/reference.hpp"
#include "tests/support/rooms.hpp"
#include "tests/support/runs.hpp"
#include "trace/execute.hpp"
#include "trace/twins.hpp"

namespace plumb::without_rows_test {
namespace {

std::shared_ptr<const Tensor> kept(Tensor x) {
  return std::make_shared<const Tensor>(std::move(x));
}

// A cast, and the sum of its columns.
class WithoutRowsOfTwo : public testing::Test {
 protected:
  Graph graph{{{"cast", {"leaf"}, {"x"}, {}, {1, fp32, bf16}, Phase::forward},
               {"column_sum", {"x"}, {"y"}, {}, {1, fp32, fp32}, Phase::backward}}};
  Values reference, run;

  void SetUp() override {
    Tensor leaf(8, 3);
    for (std::size_t e = 0; e < leaf.size(); ++e) leaf.values[e] = static_cast<float>(e % 5) - 2;
    reference = trace::reference(graph, {{"leaf", kept(leaf)}});
    Tensor flipped = *reference.at("x");
    flipped(3, 1) += 1;
    run = with_replaced(graph, reference, {{"x", kept(flipped)}});
  }
};

TEST_F(WithoutRowsOfTwo, ASumIsThatOfTheReferencesRow) {
  ASSERT_NE(*run.at("y"), *reference.at("y"));
  const std::map<std::string, std::size_t> rows{{"x", 3}};
  WithoutRows without(graph, run, reference, rows);
  EXPECT_EQ(*without.of("y"), *reference.at("y"));
  EXPECT_EQ(*without.of("x"), *reference.at("x"));
  EXPECT_EQ(without.of("leaf"), nullptr) << "nothing is upstream of it";
  EXPECT_EQ(without.of("no such"), nullptr);
}

TEST_F(WithoutRowsOfTwo, AnotherRowExplainsNothing) {
  const std::map<std::string, std::size_t> rows{{"x", 4}};
  EXPECT_EQ(*WithoutRows(graph, run, reference, rows).of("y"), *run.at("y"));
}

TEST_F(WithoutRowsOfTwo, WhatTheRunDidToTheSumStaysInIt) {
  Tensor wrong = *run.at("y");
  wrong.values[0] += 7;
  run["y"] = kept(wrong);
  const std::map<std::string, std::size_t> rows{{"x", 3}};
  Tensor left = *reference.at("y");
  left.values[0] += 7;
  EXPECT_EQ(*WithoutRows(graph, run, reference, rows).of("y"), left);
}

// No number would pass every test of a statistic.
TEST_F(WithoutRowsOfTwo, WhatIsNoNumberOrCannotBeMadeExplainsNothing) {
  const std::map<std::string, std::size_t> rows{{"x", 3}};
  Tensor endless = *run.at("x");
  endless(6, 0) = std::numeric_limits<float>::infinity();
  run["x"] = kept(endless);
  EXPECT_EQ(WithoutRows(graph, run, reference, rows).of("y"), nullptr);
  graph.nodes[1].op = "cross_entropy";  // which takes in more
  EXPECT_EQ(WithoutRows(graph, run, reference, rows).of("y"), nullptr);
}

// One row of a gradient of a healthy run, moved by more than any twin moves it.
class OneRowOfAGradient : public testing::Test {
 protected:
  static constexpr const char* row_of = "m1/layers.0.attn.add/grad_out";
  static constexpr const char* sum = "m1/layers.0.attn.proj.bias/wgrad";
  Graph one, many;
  Merged reference_run, candidate;

  void SetUp() override {
    const Training run = small_run("gpt", "bf16", "tp2");
    const Values leaves = leaves_of_run(run);
    one = plan(run.config, run.recipe, {});
    Training single = run;
    single.layout = {};
    reference_run = merge(reference_trace(single, reference(one, leaves)));
    const Trace trace = train_step(run, leaves, Joints(), find_backend("reference"));
    many = *trace.graph;
    candidate = merge(trace);
    Tensor moved = *candidate.values.at(row_of);
    for (std::size_t j = 0; j < moved.cols; ++j) moved(5, j) *= 1.5F;
    candidate.values = with_replaced(many, candidate.values, {{row_of, kept(moved)}});
  }

  TwinsJudgement judged(const Remake& remake) {
    const auto all = [](const std::string&) { return true; };
    const TwinOptions options;
    const Drawn drawn = draw_twins(one, reference_run, many, candidate, all, options);
    return conclude(TwinTests(drawn), candidate, options, remake);
  }
  static bool accused(const TwinsJudgement& seen, const std::string& id) {
    return std::ranges::find(seen.findings, id, &Finding::id) != seen.findings.end() &&
           !seen.one_row.contains(id);
  }
};

TEST_F(OneRowOfAGradient, ExplainsTheSumOfItsRows) {
  const TwinsJudgement alone = judged({});
  EXPECT_FALSE(accused(alone, row_of));
  EXPECT_TRUE(accused(alone, sum)) << "else there is nothing to explain";
  EXPECT_FALSE(accused(judged({&many, &candidate.values}), sum));
}

TEST_F(OneRowOfAGradient, DoesNotExplainASumThatIsWrongByItself) {
  Tensor wrong = *candidate.values.at(sum);
  for (float& x : wrong.values) x *= 2;
  candidate.values[sum] = kept(wrong);
  EXPECT_TRUE(accused(judged({&many, &candidate.values}), sum));
}

}  // namespace
}  // namespace plumb::without_rows_test
