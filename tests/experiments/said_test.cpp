// Does a standing say at which factor a rule finds and blames, and does a module have its name?
#include "experiments/said.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "tests/support/rooms.hpp"
#include "tests/support/runs.hpp"

namespace plumb::said_test {
namespace {

using experiments::module_of;

TEST(ModuleOf, IsTheIdWithoutMicroBatchParameterAndKind) {
  EXPECT_EQ(module_of("m0/final_norm.weight/wgrad"), "final_norm");
  EXPECT_EQ(module_of("m12/layers.1.attn.core/grad_in"), "layers.1.attn.core");
  EXPECT_EQ(module_of("embedding.lookup/main_grad"), "embedding");
  EXPECT_EQ(module_of("layers.0.mlp.experts.0.fc1.bias/exp_avg"), "layers.0.mlp.experts.0.fc1");
  EXPECT_EQ(module_of("loss/out"), "loss");
  EXPECT_EQ(module_of(""), "");
}

TEST(Standing, ComesFromLinesInTheirOrder) {
  const double infinite = std::numeric_limits<double>::infinity();
  Verdict verdict;
  verdict.lines = {{"a", "", 0.5}, {"b", "", 3}, {"c", "", 2}, {"d", "", infinite}};
  const Standing seen = standing(verdict, "c");
  EXPECT_EQ(seen.largest, infinite);
  EXPECT_EQ(seen.finite, 3);
  EXPECT_EQ(seen.before, 3);
  EXPECT_EQ(seen.there, 2);
  EXPECT_EQ(standing(verdict, "nowhere").there, 0);
}

// Under another margin a check says what the standing of the first says.
TEST(Standing, ForetellsAnotherMargin) {
  const Training run = small_run("gpt", "bf16", "tp2,sp");
  const Start start = start_of(run.config, run.recipe, run.layout, small_text());
  const Bug& bug = find_bug("sp-norm-grad-not-reduced");
  const Trial given = trials_by({"perturbation"}, start, bug).front();
  const Standing seen = standing(given.broken, given.bites_at);
  ASSERT_GT(seen.there, 1);
  const Trace perturbed = run_perturbed(start, 1);
  for (const double factor : {seen.before * 1.01, seen.there * 0.99, seen.largest * 1.01}) {
    CheckOptions options;
    options.rules = {"perturbation"};
    options.perturbed = &perturbed;
    options.margin *= factor;
    const Said said = said_by("perturbation", run_trial(start, bug, {}, options));
    EXPECT_EQ(!said.broken.empty(), seen.largest > factor) << factor;
    EXPECT_EQ(said.blamed == given.bites_at, seen.there > factor && seen.before <= factor)
        << factor;
  }
}

TEST(CheckEach, TakesOnePerturbedReferenceForAllWays) {
  const Training run = small_run("gpt", "bf16", "tp2,sp");
  const Start start = start_of(run.config, run.recipe, run.layout, small_text());
  const Trace reference = run_reference(start), candidate = run_candidate(start, nullptr).trace;
  const Trace one = run_perturbed(start, 1), other = run_perturbed(start, 2);
  const Merged r = merge(reference), c = merge(candidate);
  std::vector<CheckOptions> ways(2);
  for (CheckOptions& way : ways) way.rules = {"perturbation"};
  ways[0].perturbed = ways[1].perturbed = &one;
  EXPECT_EQ(check_each({reference, r}, candidate, c, ways).size(), 2U);
  ways[1].perturbed = &other;
  EXPECT_THROW((void)check_each({reference, r}, candidate, c, ways), std::invalid_argument);
}

TEST(SaidBy, ThoseOfSizesNameTheFirstAndDoNotLookEverywhere) {
  const Training run = small_run("gpt", "fp8-current", "tp2,sp");
  const Start start = start_of(run.config, run.recipe, run.layout, small_text());
  const Bug& bug = find_bug("sp-norm-grad-not-reduced");
  const std::vector<Trial> trials = trials_by({default_rules, "flat"}, start, bug, "norm");
  EXPECT_EQ(said_by(default_rules, trials[0]).blamed, trials[0].bites_at);
  const Said flat = said_by("flat", trials[1]);
  for (const std::string& id : flat.broken) EXPECT_EQ(id.find("norm"), id.npos) << id;
  EXPECT_EQ(flat.blamed, flat.broken.empty() ? "" : flat.broken.front());
}

TEST(SaidBy, StructureAloneNamesItsOwnFirst) {
  for (const char* id : {"sp-norm-grad-not-reduced", "cp-gradient-scale"}) {
    const Bug& bug = find_bug(id);
    const Training run = small_run("gpt", "bf16", std::string(bug.needs.layout));
    const Start start = start_of(run.config, run.recipe, run.layout, small_text());
    const Trial trial = trials_by({structure_alone}, start, bug).front();
    const Said said = said_by(structure_alone, trial);
    const bool replicas_differ = std::string(id) == "sp-norm-grad-not-reduced";
    EXPECT_EQ(said.structure, replicas_differ);
    EXPECT_EQ(said.blamed, replicas_differ ? trial.bites_at : "");
    EXPECT_EQ(said.broken.empty(), !replicas_differ);
    EXPECT_FALSE(said_by("flat", trial).broken.empty());  // which is what judged
    EXPECT_FALSE(said.false_alarm);
  }
}

}  // namespace
}  // namespace plumb::said_test
