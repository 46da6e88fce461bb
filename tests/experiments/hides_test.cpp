// Is a bug silent where its card says that it hides?
#include <gtest/gtest.h>

#include "experiments/trial.hpp"
#include "tests/support/rooms.hpp"
#include "tests/support/runs.hpp"

namespace plumb::hides_test {
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
    {"gathered-logits-into-vocab-parallel-ce", "gpt", "bf16", "dp2"},
    {"qk-scale-local-layer-number", "llama", "bf16", "tp2"},
    {"dropout-lost-after-eval", "gpt", "bf16", "tp2"},
    {"ulysses-a2a-reshape", "llama", "bf16", "cp2:ring"},
    {"cp-allgather-wrong-dim", "llama", "bf16", "cp2:ring"},
    {"allreduce-result-dropped-noncontiguous", "llama", "bf16", "dp2"},
    {"ddp-hooks-lost", "gpt", "bf16", "tp2"},
    {"last-microbatch-after-allreduce", "gpt", "bf16", "tp2"},
    {"grad-buffer-starts-from-gathered-params", "gpt", "bf16", "dp2"},
    {"optimizer-steps-orphan-params", "gpt", "bf16", "dp2"},
    {"aux-loss-scale-tp-cp", "llama-moe", "bf16", "dp2"},
    {"pp-grad-scaled-per-stage", "llama", "bf16", "tp2"},
    {"clip-applied-on-tp-rank0-only", "gpt", "bf16", "dp2"},
    {"metric-only-loss-scale", "gpt", "bf16", "dp2"},
    {"rope-length-or-offset-local", "llama", "bf16", "tp2"},
    {"packed-qkv-even-split", "gpt", "bf16", "dp2"},
    {"flat-buffer-view-offset-zero", "gpt", "bf16", "dp2"},
    {"cp-peers-different-sample", "llama", "bf16", "dp2"},
    {"bf16-gradient-reduction", "gpt", "bf16", "tp2"},
    {"bf16-params-without-master", "gpt", "bf16-pure", "tp2"},
    {"router-state-in-bf16", "llama-moe", "bf16", "dp2"},
    {"autocast-not-applied", "gpt", "fp32", "tp2"},
    {"p2p-payload-zeroed", "gpt", "bf16", "tp2"},
    {"resident-weight-bitflip", "gpt", "bf16", "tp2"},
    {"padding-mask-scatter-wrong-tp-group", "llama", "bf16", "tp2"},
    {"rs-fp8-type-confusion", "gpt", "fp8-current", "dp2"},
    {"cp-group-left-from-eval", "llama", "bf16", "tp2"},
    {"fp8-recompute-meta-aliased", "gpt", "fp8-delayed", "tp2"},
    {"sp-token-combine-batch-offset", "llama-moe", "bf16", "dp2"},
    {"lse-update-off-stream", "llama", "bf16", "cp2"},
    {"expert-bias-not-gated", "llama-moe", "bf16", "tp2"},
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

// So do those that take the sequences of a micro-batch for more than one.
TEST(HidesInOneSequence, WhatCountsSequences) {
  for (const char* bug : {"seq-aux-loss-inverse-mbs", "sp-token-combine-batch-offset"}) {
    Training run = small_run("gpt-moe", "bf16", "tp2,sp");
    run.config.sequences = 1;
    EXPECT_FALSE(trial_of(run, bug).changed) << bug;
    run.config.sequences = 2;
    EXPECT_TRUE(trial_of(run, bug).changed) << bug;
  }
}

// One micro-batch a rank is the first and the last.
TEST(HidesInOneMicroBatch, WhatKeepsTheFirst) {
  for (const char* bug : {"wgrad-only-first-microbatch", "fp8-weight-cache-wrong-scale"}) {
    Training run = small_run("gpt", "fp8-delayed", "tp2");
    run.config.micro_batches = 1;
    EXPECT_FALSE(trial_of(run, bug).changed) << bug;
    run.config.micro_batches = 2;
    EXPECT_TRUE(trial_of(run, bug).changed) << bug;
  }
}

// Sequences and tokens of one sequence lie as they are read.
TEST(HidesInOneSequence, GradientReadInAnotherOrder) {
  Training run = small_run("gpt", "bf16", "cp2:ring");
  run.config.sequences = 1;
  EXPECT_FALSE(trial_of(run, "cp-attention-dqkv-wrong").changed);
  run.config.sequences = 2;
  EXPECT_TRUE(trial_of(run, "cp-attention-dqkv-wrong").changed);
}

}  // namespace
}  // namespace plumb::hides_test
