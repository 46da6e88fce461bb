// Is the start of a step the same in every layout and from every file, and are its data unequal?
#include "model/state/state.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/support/rooms.hpp"
#include "tests/support/runs.hpp"
#include "trace/execute.hpp"
#include "trace/merge.hpp"

namespace plumb::state_test {
namespace {

TEST(State, DependsOnSeedAndNameAlone) {
  const Training run = small_run("gpt", "bf16");
  const Training other = small_run("gpt", "bf16", "dp1,tp1", 2);
  const Values one = initial_state(run.config, run.recipe);
  EXPECT_EQ(*one.at("embedding.weight/master@previous"),
            *initial_state(run.config, run.recipe).at("embedding.weight/master@previous"));
  EXPECT_NE(
      one.at("embedding.weight/master@previous")->values,
      initial_state(other.config, other.recipe).at("embedding.weight/master@previous")->values);
}

TEST(State, ParametersAreTheirMastersInTheFormatOfTheRecipe) {
  const Training run = small_run("llama", "bf16");
  Values state = initial_state(run.config, run.recipe);
  Tensor expected = *state.at("layers.0.norm1.weight/master@previous");
  round_in_place(expected.values, bf16);
  EXPECT_EQ(*state.at("layers.0.norm1.weight/param@previous"), expected);
  cast_state(run.config, find_recipe("fp32"), state);
  EXPECT_EQ(*state.at("layers.0.norm1.weight/param@previous"),
            *state.at("layers.0.norm1.weight/master@previous"));
}

TEST(State, TheNextStepStartsWhereThisOneEnds) {
  const Training run = small_run("gpt", "bf16");
  const Values step = reference(plan(run.config, run.recipe, {}), leaves_of_run(run));
  const Values next = next_state(run.config, run.recipe, step);
  EXPECT_EQ(next.at("final_norm.bias/exp_avg@previous"), step.at("final_norm.bias/exp_avg"));
  EXPECT_EQ(next.size(), 4 * parameters(run.config).size());
  Values torn = step;
  torn["final_norm.bias/exp_avg"] = std::make_shared<const Tensor>(1, 1);
  EXPECT_THROW(next_state(run.config, run.recipe, torn), Failure);
  torn.erase("final_norm.bias/exp_avg");
  EXPECT_THROW(next_state(run.config, run.recipe, torn), Failure);
}

TEST(State, OfOneRecipeIsTakenOnByAnother) {
  const Training run = small_run("gpt", "bf16");
  const Values step = reference(plan(run.config, run.recipe, {}), leaves_of_run(run));
  const Values next = next_state(run.config, run.recipe, step);
  for (const Recipe& recipe : all_recipes()) {
    Values state = next;
    cast_state(run.config, recipe, state);
    const std::vector<StateEntry> all = state_entries(run.config, recipe);
    EXPECT_EQ(state.size(), all.size()) << recipe.id;
    for (const StateEntry& k : all) {
      const auto found = state.find(k.id + "@previous");
      ASSERT_NE(found, state.end()) << recipe.id << k.id;
      Tensor again = *found->second;
      round_in_place(again.values, k.format);
      EXPECT_EQ(again, *found->second) << recipe.id << k.id;
    }
    cast_state(run.config, run.recipe, state);  // and back: masters are what parameters were
    const char* master = "layers.0.mlp.fc1.weight/master@previous";
    EXPECT_EQ(*state.at(master) == *next.at(master), recipe.masters) << recipe.id;
  }
}

TEST(Data, MicroBatchesAndStepsDifferAndCountUnequally) {
  const Training run = small_run("gpt", "bf16");
  const Values one = step_data(run.config, small_text(), 1),
               two = step_data(run.config, small_text(), 2);
  EXPECT_NE(one.at("m0/data/ids")->values, one.at("m1/data/ids")->values);
  EXPECT_NE(one.at("m0/data/ids")->values, two.at("m0/data/ids")->values);
  std::set<std::ptrdiff_t> counts;
  for (const char* id : {"m0/data/mask", "m1/data/mask", "m2/data/mask", "m3/data/mask"}) {
    const auto& mask = one.at(id)->values;
    counts.insert(std::count(mask.begin(), mask.end(), 1.0F));
  }
  EXPECT_GT(counts.size(), 1U);
  EXPECT_THROW(step_data(run.config, "short", 1), Failure);
}

TEST(Config, ComesBackFromItsSettings) {
  Config config = small_run("llama", "bf16").config;
  config.rate = 0.1 / 3;
  config.seed = std::uint64_t(1) << 60;
  const Config again = config_from(settings_of(config));
  EXPECT_EQ(again.rate, config.rate);
  EXPECT_EQ(again.seed, config.seed);
  EXPECT_EQ(settings_of(again), settings_of(config));
  for (const char* wrong : {"", "x", "-1", "1e999", "3 "}) {
    auto settings = settings_of(config);
    settings["rate"] = wrong;
    EXPECT_THROW(config_from(settings), Failure) << wrong;
    settings = settings_of(config);
    settings["layers"] = wrong;
    EXPECT_THROW(config_from(settings), Failure) << wrong;
  }
}

class Checkpoint : public testing::TestWithParam<const char*> {};

// It is a trace: what ranks of one layout left is cut anew for those of another.
TEST_P(Checkpoint, GoesOnInAnyLayoutFromAny) {
  const std::vector<std::string> layouts{"dp2,tp2,sp,zero3", "pp2,tp2", "dp2,pp2,zero1,offload",
                                         "dp1,tp1", "dp4,zero2"};
  Training run = small_run(GetParam(), "bf16");
  for (const std::string& from : layouts) {
    run.layout = parse_layout(from);
    run.step = 1;
    const Merged left = merge(train_step(run, leaves_of_run(run), {}, find_backend("reference")));
    Values leaves = next_state(run.config, run.recipe, left.values);
    leaves.merge(step_data(run.config, small_text(), 2));
    run.step = 2;
    for (const std::string& to : layouts) {
      run.layout = parse_layout(to);
      const Merged made = merge(train_step(run, leaves, {}, find_backend("reference")));
      EXPECT_TRUE(made.findings.empty()) << from << " to " << to;
      for (const StateEntry& k : state_entries(run.config, run.recipe)) {
        ASSERT_EQ(*made.values.at(k.id + "@previous"), *left.values.at(k.id)) << k.id << from << to;
      }
      const Values promised = reference(plan(run.config, run.recipe, run.layout, 2), leaves);
      for (const auto& [id, tensor] : promised) {
        ASSERT_EQ(*made.values.at(id), *tensor) << id << " " << from << " to " << to;
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Of, Checkpoint, testing::Values("gpt", "llama+latent=12+shared_key=4"));

TEST(State, AStepThatIsNotTracedLeavesTheSameToTheNextAndNothingElse) {
  for (const char* layout : {"dp1,tp1", "dp2,tp2,sp,zero3", "dp2,pp2,zero1,recompute"}) {
    const char* recipe = layout[2] == '1' ? "fp8-block" : "fp8-delayed";
    Training run = small_run("llama-moe+balance_bias", recipe, layout);
    const Values leaves = leaves_of_run(run);
    const Merged whole = merge(train_step(run, leaves, {}, find_backend("reference")));
    run.traced = false;
    const Trace trace = train_step(run, leaves, {}, find_backend("reference"));
    EXPECT_FALSE(trace.graph);
    const Merged left = merge(trace);
    const std::vector<StateEntry> all = state_entries(run.config, run.recipe);
    EXPECT_EQ(left.values.size(), all.size() + 2) << layout;
    for (const char* id : {"loss/out", "clip/grad_norm"})
      EXPECT_EQ(*left.values.at(id), *whole.values.at(id));
    for (const StateEntry& k : all)
      ASSERT_EQ(*left.values.at(k.id), *whole.values.at(k.id)) << k.id;
  }
}

}  // namespace
}  // namespace plumb::state_test
