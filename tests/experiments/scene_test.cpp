// Do trials that share a scene say what each says by itself? Is each way judged as if it were alone?
#include "experiments/scene.hpp"

#include <gtest/gtest.h>

#include "experiments/said.hpp"
#include "tests/support/rooms.hpp"
#include "tests/support/runs.hpp"
#include "trace/report/report.hpp"

namespace plumb {
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
}  // namespace plumb
