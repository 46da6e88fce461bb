// Does training lower the loss, and does its rate rise and fall as it says?
#include "model/run/training.hpp"
#include "experiments/trial.hpp"
#include "model/step/apart.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/rooms.hpp"
#include "tests/support/runs.hpp"

namespace plumb::training_test {
namespace {

Start small(int steps, std::vector<double>& losses) {
  const Training run = small_run("gpt", "bf16");
  return trained(start_of(run.config, run.recipe, {}, small_text()), small_text(), steps,
                 [&](int, double loss) { losses.push_back(loss); });
}

TEST(Trained, LossFallsAndTheRateEndsAtATwentieth) {
  std::vector<double> losses;
  const Start end = small(60, losses);
  ASSERT_EQ(losses.size(), 59U);  // the last step is the caller's
  EXPECT_LT(losses.back(), losses.front() - 1);
  EXPECT_EQ(end.run.step, 60);
  EXPECT_DOUBLE_EQ(end.run.config.rate, 0.05 * Config().rate);
}

TEST(Trained, OneStepKeepsItsRate) {
  std::vector<double> losses;
  EXPECT_EQ(small(1, losses).run.config.rate, Config().rate);
  EXPECT_TRUE(losses.empty());
}

// A step of a run that goes through several starts where the same step of another does.
TEST(GoThrough, StepsAreThoseOfTrained) {
  const Training run = small_run("gpt", "fp8-delayed");
  const Start start = start_of(run.config, run.recipe, {}, small_text());
  std::vector<Start> seen;
  go_through(start, small_text(), 3, [&](const Start& now) {
    seen.push_back(now);
    return merge(run_reference(now)).values;
  });
  ASSERT_EQ(seen.size(), 3U);
  const Start last = trained(start, small_text(), 3, [](int, double) {});
  EXPECT_EQ(seen[2].run.step, 3);
  EXPECT_EQ(seen[2].run.config.rate, last.run.config.rate);
  ASSERT_EQ(seen[2].leaves.size(), last.leaves.size());
  for (const auto& [id, tensor] : last.leaves) EXPECT_EQ(*seen[2].leaves.at(id), *tensor) << id;
}

TEST(StartFrom, ATraceIsWhereItsStepStarted) {
  const Training run = small_run("llama-moe", "bf16");
  const Start start = start_of(run.config, run.recipe, {}, small_text());
  const Trace trace = run_reference(start);
  const Start again = start_from(trace, merge(trace), parse_layout("dp2,ep2"));
  EXPECT_EQ(name_of(again.run.layout), "dp2,tp1,ep2");
  ASSERT_EQ(again.leaves.size(), start.leaves.size());
  for (const auto& [id, tensor] : start.leaves) EXPECT_EQ(*again.leaves.at(id), *tensor) << id;
}

// Ranks that go on from their own state are where cutting whole tensors puts them; where a bug drives
// replicas apart they stay apart, and each goes on from its own.
TEST(StepsApart, AreThoseOfWholeTensorsUntilReplicasDrift) {
  const Training run = small_run("gpt", "bf16", "tp2,sp");
  const Start first = start_of(run.config, run.recipe, run.layout, small_text());
  const Backend& reference = find_backend("reference");
  for (const char* id : {"none", "sp-norm-grad-not-reduced"}) {
    const bool healthy = std::string(id) == "none";
    Joints joints;
    if (!healthy) find_bug(id).plant(joints, {}, run.config);
    Start start = first;
    std::vector<Values> states;
    for (int step = 1; step <= 3; ++step) {
      const Trace apart = train_step_apart(start.run, start.leaves, states, joints, reference);
      const Values values = merge(apart).values;
      if (healthy) {
        for (const auto& [name, tensor] : merge(run_candidate(start, joints).trace).values)
          ASSERT_EQ(*values.at(name), *tensor) << name << " in step " << step;
      }
      states = states_apart(start.run, apart);
      start = step_after(start, values);
    }
    const auto drifted = [&](const char* name) {
      return *states[0].at(name) != *states[1].at(name);
    };
    EXPECT_EQ(drifted("final_norm.weight/param"), !healthy);
    EXPECT_EQ(*states[1].at("final_norm.weight/param") ==
                  *start.leaves.at("final_norm.weight/param@previous"),
              healthy);
  }
}

TEST(StepsApart, RefuseSharesOfTheState) {
  const Training run = small_run("gpt", "bf16", "dp2,zero1");
  EXPECT_THROW(states_apart(run, {}), Failure);
}

// What a step leaves changes nothing of a healthy one after it; a late bug does not show before.
TEST(LateBugs, ShowFromTheSecondStepOn) {
  const Training run = small_run("gpt", "bf16", "dp2,tp2");
  const Start first = start_of(run.config, run.recipe, run.layout, small_text());
  const Start second = step_after(first, merge(run_reference(first)).values);
  const auto values_of = [](const Start& start, const Bug* bug, std::vector<StaleGradients>& left) {
    return merge(run_candidate(start, bug, {}, "reference", threads(), &left).trace).values;
  };
  const auto equal = [](const Values& a, const Values& b) {
    return std::ranges::all_of(a,
                               [&](const auto& each) { return *each.second == *b.at(each.first); });
  };
  std::vector<StaleGradients> none, healthy, broken;
  const Bug& bug = find_bug("zero-grad-missing");
  const Values one = values_of(first, nullptr, healthy);
  EXPECT_TRUE(equal(one, values_of(first, &bug, broken)));
  const Values two = values_of(second, nullptr, healthy);
  EXPECT_TRUE(equal(two, values_of(second, nullptr, none)));
  EXPECT_FALSE(equal(two, values_of(second, &bug, broken)));
}

}  // namespace
}  // namespace plumb::training_test
