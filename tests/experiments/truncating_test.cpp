// A machine that cuts sums toward zero, as an H100 does: are healthy runs on it acquitted by twins that
// multiply as it does, and bugs blamed? Of twins that round to nearest they are not.
#include <gtest/gtest.h>

#include "bounds/machine.hpp"
#include "bounds/multiply.hpp"
#include "experiments/emulated.hpp"
#include "experiments/trial.hpp"
#include "kernels/backend.hpp"

#include "model/data/text.hpp"
#include "model/run/training.hpp"
#include "model/step/train_step.hpp"
#include "probe/machine_products.hpp"
#include "tests/support/rooms.hpp"
#include "tests/support/runs.hpp"

namespace plumb::truncating_test {
namespace {

const Multiply& as_h100() {
  static const Multiply made = probe::products_on(*find_machine("h100")).value();
  return made;
}

class Truncating : public testing::TestWithParam<const char*> {
 protected:
  Truncating() {
    const Training run = small_run(GetParam(), "bf16-wire32");
    start_ = trained(start_of(run.config, run.recipe, run.layout, default_text()), default_text(),
                     30, [](int, double) {});
    options_.replay.machine = find_machine("h100");
  }
  Trace on_h100(std::string_view layout, const Bug* bug = nullptr) {
    Training run = start_.run;
    run.layout = parse_layout(std::string(layout));
    Joints joints;
    if (bug != nullptr) bug->plant(joints, {}, run.config);
    return train_step(run, start_.leaves, joints, emulated_h100());
  }

  Start start_;
  CheckOptions options_;
};

// Beside a reference that rounded to nearest.
TEST_P(Truncating, TwinsOfTheMachineAcquitHealthyRunsAndBlameBugs) {
  options_.multiply = &as_h100();
  const Trace reference = run_reference(start_);
  for (const char* id :
       {"embedding-mask-on-shifted-ids", "sp-norm-grad-not-reduced", "mean-of-means-loss",
        "cp-weight-grad-not-reduced", "clip-norm-misses-sharded-params", "one-masked-entry"}) {
    const Bug& bug = find_bug(id);
    const Verdict healthy = check(reference, on_h100(bug.needs.layout), options_);
    EXPECT_EQ(healthy.exit_code(), 0) << bug.needs.layout << " " << healthy.blamed;
    const Verdict broken = check(reference, on_h100(bug.needs.layout, &bug), options_);
    EXPECT_EQ(broken.exit_code(), 1) << id;
    EXPECT_EQ(broken.blamed, bug.bites_at(start_.run.config));
  }
}

// It is made again as the machine multiplies: whatever it ran on, it is the same.
TEST_P(Truncating, OfTheReferenceOnlyWhatItPromisesCounts) {
  options_.multiply = &as_h100();
  options_.rules = {"twins"};
  const Trace candidate = on_h100("dp2"), there = on_h100("dp1"), here = run_reference(start_);
  const Merged other = merge(here);
  EXPECT_TRUE(std::ranges::any_of(merge(there).values, [&](const auto& v) {
    return !(*v.second == *other.values.at(v.first));
  }));
  const Verdict by_there = check(there, candidate, options_),
                by_here = check(here, candidate, options_);
  ASSERT_EQ(by_there.lines.size(), by_here.lines.size());
  for (std::size_t i = 0; i < by_here.lines.size(); ++i)
    EXPECT_EQ(by_there.lines[i].p, by_here.lines[i].p) << by_here.lines[i].id;
}

// Its sums are smaller, all of them: no rounding to nearest does that.
TEST_P(Truncating, TwinsThatRoundToNearestAccuseIt) {
  const Trace reference = run_reference(start_);
  int accused = 0;
  for (const char* layout : {"tp2,sp", "dp2", "cp2"}) {
    const Verdict seen = check(reference, on_h100(layout), options_);
    accused += seen.exit_code() == 1 ? 1 : 0;
    const auto said = [](const std::string& note) {
      return note.find("sums of the machine h100 are cut toward zero") != std::string::npos;
    };
    EXPECT_TRUE(std::ranges::any_of(seen.notes, said));
  }
  EXPECT_GT(accused, 0);
}

INSTANTIATE_TEST_SUITE_P(Of, Truncating, testing::Values("gpt", "llama"));

}  // namespace
}  // namespace plumb::truncating_test
