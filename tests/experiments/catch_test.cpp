// Is each planted bug caught and blamed where it bites, and is its healthy twin left alone?
#include <gtest/gtest.h>

#include <span>

#include "experiments/trial.hpp"
#include "model/plan/rewriting.hpp"
#include "tests/support/bugs.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/rooms.hpp"
#include "tests/support/runs.hpp"

namespace plumb::catch_test {

namespace {

Start small_start(const Needs& needs, const std::string& family, std::uint64_t seed) {
  Training run = small_run(family, std::string(needs.recipe), std::string(needs.layout), seed);
  needs.complete(run.config);
  return start_of(run.config, run.recipe, run.layout, small_text());
}

// One seed; PLUMB_EFFORT=2 takes two, and half of it one family. More: experiment detection-rate.
class Catch : public testing::TestWithParam<const Bug*> {};

TEST_P(Catch, BlamesTheFirstWrongTensorAndAcquitsTheHealthyRun) {
  const Bug& bug = *GetParam();
  const auto families = static_cast<std::size_t>(effort(2)), seeds = families / 2;
  const std::span all(bug.needs.families);
  for (const Family base : all.first(std::min(families, all.size()))) {
    const std::string family = bug.needs.family(base);
    for (std::uint64_t seed = 1; seed <= std::max<std::size_t>(seeds, 1); ++seed) {
      const Start start = small_start(bug.needs, family, seed);

      const Trial trial = run_trial(start, bug, {}, {});

      EXPECT_TRUE(trial.reached);
      EXPECT_TRUE(trial.changed);
      EXPECT_EQ(trial.broken.exit_code(), 1) << family << " seed " << seed;
      EXPECT_EQ(trial.broken.blamed, trial.bites_at) << family << " seed " << seed;
      EXPECT_EQ(trial.healthy.exit_code(), 0)
          << family << " seed " << seed << " "
          << (trial.healthy.findings.empty()
                  ? ""
                  : trial.healthy.findings[0].id + " " + trial.healthy.findings[0].statistic +
                        trial.healthy.findings[0].detail);
    }
  }
}

// Where no error travels between modules, the first finding lies in the module that is wrong.
TEST_P(Catch, NamesTheModuleWhereWhatModulesTakeInIsRewritten) {
  const Bug& bug = *GetParam();
  const Start start = small_start(bug.needs, bug.needs.family(bug.needs.families.front()), 1);

  const Trial trial = run_trial(start, bug, {}, {}, Rewriting::generated);

  ASSERT_EQ(trial.broken.exit_code(), 1);
  EXPECT_EQ(module_of(trial.broken.findings.front().id), module_of(trial.bites_at))
      << trial.broken.findings.front().id;
  EXPECT_EQ(trial.healthy.exit_code(), 0)
      << (trial.healthy.findings.empty() ? "" : trial.healthy.findings[0].id);
}

INSTANTIATE_TEST_SUITE_P(Of, Catch, testing::ValuesIn(all_bugs().begin(), all_bugs().end()),
                         [](const auto& bug) {
                           std::string name;
                           for (const char c : bug.param->id) name += c == '-' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace plumb::catch_test
