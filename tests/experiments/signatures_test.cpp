// Does replay say of planted bugs what they did, from the numbers alone?
#include <gtest/gtest.h>

#include "experiments/trial.hpp"
#include "tests/support/rooms.hpp"
#include "tests/support/runs.hpp"

namespace plumb::signatures_test {
namespace {

struct Named {
  const char *bug, *name;
};

class Signatures : public testing::TestWithParam<Named> {};

TEST_P(Signatures, NameWhatTheBugDid) {
  const Bug& bug = find_bug(GetParam().bug);
  for (const Family base : bug.needs.families) {
    Training run = small_run(bug.needs.family(base), std::string(bug.needs.recipe),
                             std::string(bug.needs.layout), 1);
    bug.needs.complete(run.config);
    const Start start = start_of(run.config, run.recipe, run.layout, small_text());
    const Trial trial = run_trial(start, bug, {}, {});
    EXPECT_TRUE(std::ranges::any_of(
        trial.broken.findings,
        [](const Finding& f) { return f.looks_like.starts_with(GetParam().name); }))
        << bug.id << " in " << bug.needs.family(base);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Of, Signatures,
    testing::Values(Named{"sp-norm-grad-not-reduced", "is part 1 of 2 of its sum alone"},
                    Named{"latent-grad-not-reduced", "is part 1 of 2 of its sum alone"},
                    Named{"cp-weight-grad-not-reduced", "is part 1 of 2 of its sum alone"},
                    Named{"expert-grad-ep-factor", "2 times what it should be"},
                    Named{"bias-before-row-parallel-reduce", "counts its bias 2 times"},
                    Named{"tied-embedding-not-synced-across-pp", "is embedding.lookup/main_grad"},
                    Named{"ep-gather-detaches-router", "0 wherever it is wrong"}),
    [](const auto& of) {
      std::string name = of.param.bug;
      std::ranges::replace(name, '-', '_');
      return name;
    });

}  // namespace
}  // namespace plumb::signatures_test
