// What given twins say of what an optimizer made: how far an update may lie, and what explains it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/twin_traces.hpp"
#include "trace/report/report.hpp"
#include "trace/twin_traces.hpp"

namespace plumb::updates_test {
namespace {

class TwinTracesOfUpdates : public WithTwinTraces {
 protected:
  // What an optimizer makes, which twins have otherwise: the farthest by 0.003.
  std::string update_of_twins() {
    const auto first = std::ranges::find_if(
        one_.nodes, [](const Node& node) { return node.phase == Phase::optimizer; });
    const std::string id = first->outputs.back();
    for (std::size_t k = 0; k < twins_.size(); ++k) {
      Tensor x = *r_.values.at(id);
      scale(x, 1 + 1e-3F * static_cast<float>(k));
      twins_[k].ranks[0].shards[id] = {whole(x.rows, x.cols), x, r_.formats.at(id)};
    }
    return id;
  }
};

// An optimizer's rate does nothing to its states.
TEST_F(TwinTracesOfUpdates, FindAnotherSettingOfAnOptimizerAtTheWeight) {
  const std::vector<std::string> outputs{"m0/layers.0.norm1/out", "m0/layers.0.norm2/out",
                                         "m0/layers.1.norm1/out"};
  const auto made = [](std::size_t output, double rate) {
    const Attributes settings{{"lr", rate},  {"beta1", 0.9}, {"beta2", 0.999},
                              {"eps", 1e-8}, {"step", 1},    {"weight_decay", 0}};
    return MadeBy{"adam", {"w", "m", "v", "g"}, output, settings};
  };
  for (std::size_t n = 0; n < outputs.size(); ++n) {
    reference_.about[outputs[n]].made_by = made(n, 0.1);
    candidate_.about[outputs[n]].made_by = made(n, 0.2);
  }
  const Verdict v = verdict();
  ASSERT_EQ(v.findings.size(), 1U);
  EXPECT_EQ(v.blamed, outputs.back());
  for (std::size_t n = 0; n < outputs.size(); ++n)  // as a program has it that keeps it in FP32
    candidate_.about[outputs[n]].made_by = made(n, static_cast<double>(0.1F));
  EXPECT_TRUE(verdict().findings.empty());
}

// What twins leave to replay, and replay cannot judge, is as open as what nobody says how it was made.
TEST_F(TwinTracesOfUpdates, ThatCannotBeReplayedAreNotExplainedEither) {
  const std::string id = update_of_twins();
  const Attributes settings{{"lr", 0.1},   {"beta1", 0.9}, {"beta2", 0.999},
                            {"eps", 1e-8}, {"step", 1},    {"weight_decay", 0}};
  for (Trace* trace : {&reference_, &candidate_})
    trace->about[id].made_by = MadeBy{"adam", {"not", "to", "be", "found"}, 2, settings};
  for (const std::vector<std::string>& rules :
       {std::vector<std::string>{"twins", "replay"}, {"replay", "twins"}}) {
    options_.rules = rules;
    EXPECT_EQ(verdict().unexplained, 0U) << text_report(verdict());
    change(id, [](Tensor& x) { scale(x, 1.5F); });
    const Verdict v = verdict();
    EXPECT_EQ(v.exit_code(), 3) << text_report(v);
    EXPECT_EQ(v.unexplained, 1U) << text_report(v);
    EXPECT_EQ(v.farthest.first, id);
    change(id, [](Tensor& x) { scale(x, 1 / 1.5F); });
  }
}

// What an optimizer makes has no tolerance; but where all weights are off by a step, no twin explains it.
TEST_F(TwinTracesOfUpdates, SayThatAnUpdateFarBeyondThemIsNotExplained) {
  const std::string id = update_of_twins();
  change(id, [](Tensor& x) { scale(x, 1.02F); });  // the farthest twin is at 0.003
  Verdict v = verdict();
  EXPECT_EQ(v.exit_code(), 0) << text_report(v);
  EXPECT_EQ(v.unexplained, 0U);
  EXPECT_GT(v.of_optimizer, 0U);
  EXPECT_TRUE(headline(v).ends_with(
      fmt::format("; not judged, though different: {} that the optimizer made", v.of_optimizer)))
      << headline(v);
  change(id, [](Tensor& x) { scale(x, 1.02F); });
  v = verdict();
  EXPECT_EQ(v.exit_code(), 3) << text_report(v);
  EXPECT_EQ(v.unexplained, 1U);
  EXPECT_EQ(v.farthest.first, id);
  EXPECT_TRUE(v.findings.empty());
  const Tensor& r = *r_.values.at(id);
  for (Trace& twin : twins_) twin.ranks[0].shards.at(id).values = r;
  for (RankRecord& rank : candidate_.ranks) {
    rank.shards[id] = {whole(r.rows, r.cols), r, r_.formats.at(id)};
  }
  // A last bit, where no twin has one.
  change(id, [](Tensor& x) { x.values[0] = std::nextafter(x.values[0], 1.0F); });
  EXPECT_EQ(verdict().unexplained, 0U);
  change(id, [](Tensor& x) { scale(x, 1.02F); });
  EXPECT_EQ(verdict().unexplained, 1U);
  twins_[1].ranks[0].shards.erase(id);  // then twins say nothing of it
  EXPECT_EQ(verdict().exit_code(), 0);
}

// A weight that is made of a gradient that is found needs no other reason; told by the slope's sign.
TEST_F(TwinTracesOfUpdates, TellThatAnUpdateFollowsFromWhatIsFound) {
  const auto last = std::ranges::find_if(
      one_.nodes, [](const Node& node) { return node.phase == Phase::optimizer; });
  const std::string id = last->outputs.back();
  const auto gradient = std::ranges::find_if(
      r_.values, [](const auto& one) { return one.first.ends_with("fc1.weight/main_grad"); });
  for (Trace& twin : twins_) {
    const Tensor& x = *r_.values.at(id);
    twin.ranks[0].shards[id] = {whole(x.rows, x.cols), x, r_.formats.at(id)};
  }
  change(id, [](Tensor& x) { scale(x, 1.5F); });
  EXPECT_EQ(verdict().unexplained, 1U);
  change(gradient->first, [](Tensor& x) { scale(x, 0.5F); });
  const Verdict v = verdict();
  ASSERT_EQ(v.exit_code(), 1) << text_report(v);
  EXPECT_EQ(v.blamed, gradient->first);
  EXPECT_EQ(v.unexplained, 0U) << text_report(v);
  EXPECT_TRUE(std::ranges::any_of(v.not_judged, [&](const NotJudged& one) {
    return one.id == id && one.why.starts_with("by ") &&
           one.why.ends_with("may be made from a tensor that is found");
  })) << text_report(v);
  EXPECT_NE(v.findings.front().detail.find("the slope of the difference on the reference is -0.5"),
            std::string::npos)
      << v.findings.front().detail;
  EXPECT_LT(*v.findings.front().value, 0);
}

}  // namespace
}  // namespace plumb::updates_test
