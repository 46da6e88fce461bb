// Do trials that share a scene say what each says by itself? Is each way judged as if it were alone?
#include "experiments/scene.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "experiments/said.hpp"
#include "tests/support/rooms.hpp"
#include "tests/support/runs.hpp"
#include "trace/report/report.hpp"

namespace plumb::scene_test {
namespace {

Start start_of_family(const char* family, const char* layout) {
  const Training run = small_run(family, "bf16", layout);
  return start_of(run.config, run.recipe, run.layout, small_text());
}

// All that reports say of it.
std::string text_of(const Verdict& verdict) { return json_lines(verdict); }

void expect_same(const std::vector<Trial>& these, const std::vector<Trial>& those) {
  ASSERT_EQ(these.size(), those.size());
  for (std::size_t i = 0; i < these.size(); ++i) {
    EXPECT_EQ(text_of(these[i].healthy), text_of(those[i].healthy)) << "way " << i;
    EXPECT_EQ(text_of(these[i].broken), text_of(those[i].broken)) << "way " << i;
    EXPECT_EQ(these[i].effect, those[i].effect);
    EXPECT_EQ(these[i].bites_at, those[i].bites_at);
    EXPECT_EQ(these[i].blamed_right, those[i].blamed_right);
  }
}

const std::vector<std::string> many{default_rules, "perturbation", "flat", "assert-close",
                                    structure_alone};

// What is not asked of an executed reference holds, and a check says the same by both.
TEST(ExecutedReference, IsWhatItsTraceHoldsAndPromises) {
  for (const char* family : {"gpt", "llama", "gpt-moe"}) {
    const Start start = start_of_family(family, "dp2,tp2");
    const ExecutedReference executed(start);
    const Merged merged = merge(executed.trace());
    for (const auto& [id, tensor] : merged.values) {
      EXPECT_EQ(*executed.merged().values.at(id), *tensor) << id;
      EXPECT_EQ(executed.merged().formats.at(id), merged.formats.at(id)) << id;
    }
    EXPECT_EQ(executed.merged().values.size(), merged.values.size());
    EXPECT_NO_THROW(Reference(executed.trace(), executed.merged())) << family;
    const Candidate run = run_candidate(start);
    const Merged c = merge(run.trace);
    EXPECT_EQ(text_of(check(executed.to_judge(), run.trace, c, {})),
              text_of(check(executed.trace(), run.trace, {})));
  }
}

TEST(ExecutedReference, IsRefusedWhereItIsNotFinite) {
  Start start = start_of_family("gpt", "tp2");
  const std::string weight = "embedding.weight/master@previous";
  auto huge = std::make_shared<Tensor>(*start.leaves.at(weight));
  huge->values[7] = std::numeric_limits<float>::infinity();
  start.leaves[weight] = huge;
  const ExecutedReference executed(start);
  EXPECT_FALSE(executed.merged().not_finite.empty());
  EXPECT_THROW(executed.to_judge(), Failure);
}

TEST(Scene, OfTwoBugsJudgesEachAsIfItWereAlone) {
  const Start start = start_of_family("gpt", "tp2");
  Scene scene(start, false, ways_of(many));
  for (const char* id : {"embedding-mask-on-shifted-ids", "bias-before-row-parallel-reduce"}) {
    const Bug& bug = find_bug(id);
    expect_same(scene.trials(planted(bug, {}, start.run.config)), trials_by(many, start, bug));
  }
}

TEST(Scene, JudgesEachWayAsIfItWereAlone) {
  const Start start = start_of_family("llama", "tp2");
  const Bug& bug = find_bug("embedding-mask-on-shifted-ids");
  const std::vector<Trial> all = trials_by(many, start, bug);
  for (std::size_t i = 0; i < many.size(); ++i) {
    expect_same({all[i]}, trials_by({many[i]}, start, bug));
  }
}

TEST(Scene, OfALateBugIsTheStepThatItShowsIn) {
  const Start start = start_of_family("gpt", "tp2");
  const Bug& bug = find_bug("zero-grad-missing");
  ASSERT_TRUE(bug.in_the_next_step);
  Scene scene(start, true, {{}});
  const Trial trial = scene.trials(planted(bug, {}, start.run.config)).front();
  EXPECT_TRUE(trial.changed);
  EXPECT_TRUE(trial.blamed_right) << trial.broken.blamed;
}

TEST(LastScene, IsMadeAgainOnlyWhereAnotherIsAsked) {
  const Start start = start_of_family("gpt", "dp2");
  int made = 0;
  const auto make = [&] {
    ++made;
    return std::make_unique<Scene>(start, false, std::vector<CheckOptions>{{}});
  };
  LastScene last;
  Scene* first = &last.of("one", make);
  EXPECT_EQ(first, &last.of("one", make));
  EXPECT_EQ(made, 1);
  last.of("other", make);
  EXPECT_EQ(made, 2);
}

}  // namespace
}  // namespace plumb::scene_test
