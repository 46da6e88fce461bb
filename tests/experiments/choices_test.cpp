// Is a healthy run of trained weights acquitted, by twins and replay, with all that attention may
// be asked to be, and in a ring?
#include <gtest/gtest.h>

#include "experiments/trial.hpp"
#include "model/run/training.hpp"
#include "tests/support/rooms.hpp"
#include "tests/support/runs.hpp"

namespace plumb::choices_test {
namespace {

struct Case {
  const char *model, *recipe, *layout;
};

class Choices : public testing::TestWithParam<Case> {};

TEST_P(Choices, OfAttentionAreHealthyOnTrainedWeights) {
  const Training run = small_run(GetParam().model, "bf16");
  const Start first = start_of(run.config, run.recipe, {}, small_text());
  Start start = trained(first, small_text(), 60, [](int, double) {});
  start.run.recipe = find_recipe(GetParam().recipe);
  cast_state(start.run.config, start.run.recipe, start.leaves);
  start.leaves.merge(step_data(start.run.config, small_text(), start.run.step));
  start.run.layout = parse_layout(GetParam().layout);

  const Verdict verdict = check(run_reference(start), run_candidate(start).trace, {});

  const std::string why = verdict.findings.empty() ? "" : verdict.findings.front().id;
  EXPECT_EQ(verdict.exit_code(), 0) << why;
}

INSTANTIATE_TEST_SUITE_P(
    Of, Choices,
    testing::Values(Case{"gpt+sinks+qk_norm+documents=3", "fp8-current", "tp2,sp"},
                    Case{"llama+sinks+qk_norm+documents=3", "bf16", "cp2:ring"},
                    Case{"gpt+latent=12+shared_key=4", "fp8-current", "tp2,sp"},
                    Case{"llama+latent=12+shared_key=4", "bf16", "cp2:ring,tp2"}));

}  // namespace
}  // namespace plumb::choices_test
