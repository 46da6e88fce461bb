// Is a bug silent where its card says that it hides?
#include <gtest/gtest.h>

#include "experiments/trial.hpp"
#include "tests/support/rooms.hpp"
#include "tests/support/runs.hpp"

namespace plumb {
namespace {

struct Hidden {
  const char *bug, *model, *recipe, *layout;
};
void PrintTo(const Hidden& of, std::ostream* out) { *out << of.bug << " in " << of.layout; }

const Hidden all[] = {
    {"cp-gradient-scale", "llama", "bf16", "dp2"},
    {"dp-gradient-scale", "gpt", "bf16", "tp2,cp2"},
    {"tied-embedding-reduce-after-scatter", "gpt", "bf16", "dp2,pp2"},
    {"tied-embedding-reduce-after-scatter", "gpt", "bf16", "dp2,zero1"},
    {"tied-embedding-reduce-after-scatter", "gpt", "bf16", "pp2,cp2,zero1"},
    {"tied-embedding-reduce-after-scatter", "llama", "bf16", "dp2,pp2,zero1"},
    {"pp-uneven-layer-offset", "llama", "bf16", "pp2"},
    {"expert-params-outside-optimizer-buffer", "llama-moe", "bf16", "dp2,ep2"},
    {"expert-params-outside-optimizer-buffer", "llama", "bf16", "dp2,zero1"},
    {"fp8-cast-of-local-norm-output", "llama", "fp8-delayed", "tp2"},
    {"fp8-cast-of-local-norm-output", "llama", "bf16", "tp2,sp"},
    {"tp-overlap-buffer-consumed-early", "llama", "bf16", "tp2"},
    {"tp-overlap-buffer-consumed-early", "llama", "bf16", "dp2,overlap:1"},
    {"cp-attention-dqkv-wrong", "llama", "bf16", "cp2"},
    {"cp-attention-dqkv-wrong", "llama", "bf16", "cp2:ulysses"},
    {"norm-grad-tp-times-too-large", "llama", "fp8-delayed", "tp2"},
    {"norm-grad-tp-times-too-large", "llama", "fp8-delayed", "cp2"},
    {"norm-grad-tp-times-too-large", "gpt", "fp8-delayed", "tp2,cp2,sp"},
};

Trial trial_of(const Training& run, const char* bug) {
  const Start start = start_of(run.config, run.recipe, run.layout, small_text());
  return run_trial(start, find_bug(bug), {}, {});
}

class Hides : public testing::TestWithParam<Hidden> {};

TEST_P(Hides, NoBitChangesAndNothingIsFound) {
  const auto& [bug, model, recipe, layout] = GetParam();
  const Trial trial = trial_of(small_run(model, recipe, layout), bug);
  EXPECT_FALSE(trial.changed) << trial.effect_at;
  EXPECT_EQ(trial.broken.exit_code(), 0);
}

INSTANTIATE_TEST_SUITE_P(Of, Hides, testing::ValuesIn(all));

// Sequences and tokens of one sequence lie as they are read.
TEST(HidesInOneSequence, GradientReadInAnotherOrder) {
  Training run = small_run("gpt", "bf16", "cp2:ring");
  run.config.sequences = 1;
  EXPECT_FALSE(trial_of(run, "cp-attention-dqkv-wrong").changed);
  run.config.sequences = 2;
  EXPECT_TRUE(trial_of(run, "cp-attention-dqkv-wrong").changed);
}

}  // namespace
}  // namespace plumb
