// Sums over ranks that can be left out: is each joint asked, and what goes wrong first without it?
#include <gtest/gtest.h>

#include "kernels/backend.hpp"
#include "model/joints/attention.hpp"
#include "model/joints/experts.hpp"
#include "model/joints/gradients.hpp"
#include "model/joints/layers.hpp"
#include "model/joints/layout.hpp"
#include "model/joints/optimizer.hpp"
#include "model/run/reference.hpp"
#include "tests/support/rooms.hpp"
#include "tests/support/runs.hpp"
#include "trace/check.hpp"
#include "trace/execute.hpp"

namespace plumb::joints_test {
namespace {

struct LeftOut {
  const char* name;
  const char* family;
  const char* recipe;
  const char* layout;
  void (*replace)(Joints&);
  const char* blamed;
};

void not_over(Joint<bool(const Where&, std::string_view)>& joint, std::string_view axis) {
  joint.replace([axis](const Where&, std::string_view asked) { return asked != axis; });
}

bool never(const Where&) { return false; }

void leave_one_gradient(Joints& joints) {
  joints.gradients.sums_over_batches.replace(
      [](const Where& where) { return where.module != "layers.1.mlp.fc2.weight"; });
}

const LeftOut all[] = {
    {"softmax_over_slices", "gpt", "fp32", "tp2",
     [](Joints& j) { j.loss.normalises_over_slices.replace(never); }, "m0/loss/lse"},
    {"rows_of_the_embedding", "llama", "bf16", "tp2",
     [](Joints& j) { j.embedding.sums_over_slices.replace(never); }, "m0/embedding/out"},
    {"rows_of_a_product", "gpt", "bf16", "tp2,sp",
     [](Joints& j) { j.row_parallel.sums.replace(never); }, "m0/layers.0.attn.proj/out"},
    {"rows_of_experts_products", "gpt-moe", "bf16", "tp2",
     [](Joints& j) {
       j.row_parallel.sums.replace(
           [](const Where& where) { return where.module != "layers.1.mlp.experts.fc2"; });
     },
     "m0/layers.1.mlp.experts.fc2/out"},
    {"gradient_below_the_head", "llama", "bf16", "tp2",
     [](Joints& j) { j.linear.sums_input_gradient.replace(never); }, "m0/head/grad_in"},
    {"gathered_keys_and_values", "llama", "bf16", "cp2:allgather",
     [](Joints& j) { j.context.sums_gathered_gradient.replace(never); },
     "m0/layers.1.attn.core/grad_in"},
    {"loss_over_batches", "gpt", "fp32", "dp2",
     [](Joints& j) { j.loss.sums_over_batches.replace(never); }, "loss/out"},
    {"count_over_batches", "gpt", "fp32", "dp2",
     [](Joints& j) { not_over(j.loss.counts_over, "dp"); }, "data/count"},
    {"count_over_contexts", "llama", "fp32", "cp2",
     [](Joints& j) { not_over(j.loss.counts_over, "cp"); }, "data/count"},
    {"routers_losses_over_tokens", "llama-moe", "bf16", "cp2",
     [](Joints& j) { not_over(j.router.losses_over, "tokens"); },
     "m0/layers.0.mlp.router/balance_loss"},
    {"routers_losses_over_sequence", "gpt-moe", "bf16", "tp2,sp",
     [](Joints& j) { not_over(j.router.losses_over, "tokens"); },
     "m0/layers.0.mlp.router/balance_loss"},
    {"routers_losses_over_batches", "llama-moe", "bf16", "dp2",
     [](Joints& j) { not_over(j.router.losses_over, "dp"); }, "layers.0.mlp.router/balance_loss"},
    {"gradient_over_batches", "llama", "bf16", "dp2", leave_one_gradient,
     "layers.1.mlp.fc2.weight/main_grad"},
    {"gradient_in_buckets_over_batches", "llama", "bf16", "dp2,overlap:3", leave_one_gradient,
     "layers.1.mlp.fc2.weight/main_grad"},
    {"norm_over_slices", "gpt", "bf16", "tp2",
     [](Joints& j) { not_over(j.optimizer.norm_over, "model"); }, "clip/grad_norm"},
    {"norm_over_shares", "gpt", "bf16", "dp2,zero2",
     [](Joints& j) { not_over(j.optimizer.norm_over, "dp"); }, "clip/grad_norm"},
    {"norm_over_experts", "gpt-moe", "bf16", "dp2,ep2",
     [](Joints& j) { not_over(j.optimizer.norm_over, "ep"); }, "clip/grad_norm"},
    {"replicas_in_norm", "gpt", "bf16", "tp2",
     [](Joints& j) { j.optimizer.in_norm.replace([](const Where&, bool) { return true; }); },
     "clip/grad_norm"},
    {"sums_of_a_tied_matrix_in_shares", "gpt", "bf16", "dp2,pp2,zero2",
     [](Joints& j) { j.pipeline.ties_sums.replace([](const Where&, bool) { return false; }); },
     "embedding.weight/main_grad"},
    {"updates_without_shares", "llama", "bf16", "tp2",
     [](Joints& j) {
       j.optimizer.updates.replace(
           [](const Where& where, bool) { return where.module != "layers.1.mlp.fc2.weight"; });
     },
     "layers.1.mlp.fc2.weight/exp_avg"},
    {"cast_of_an_input_not_gathered", "gpt", "mxfp8", "tp2",
     [](Joints& j) {
       j.linear.takes_cast.replace(
           [](const Where& where, bool) { return where.module != "layers.1.mlp.fc1"; });
     },
     "m0/layers.1.mlp.fc1/out"},
    {"current_scale_over_slices", "llama", "fp8-current", "tp2",
     [](Joints& j) { not_over(j.scaling.reduces_over, "tp"); },
     "m0/layers.0.mlp.fc2/operand_scale"},
    {"current_scale_over_shares", "gpt", "casts", "dp4,zero3",
     [](Joints& j) { not_over(j.scaling.reduces_over, "dp"); },
     "layers.1.attn.proj.weight/operand_scale"},
    {"current_scale_over_contexts", "llama", "fp8-current", "cp2",
     [](Joints& j) { not_over(j.scaling.reduces_over, "cp"); },
     "m0/layers.0.mlp.fc2/operand_scale"},
    {"scale_of_blocks_over_experts", "llama-moe", "nvfp4", "dp2,ep2",
     [](Joints& j) { not_over(j.scaling.reduces_over, "ep"); },
     "m0/layers.0.mlp.experts.fc2/operand_scale"},
};

class Decisions : public testing::TestWithParam<LeftOut> {};

TEST_P(Decisions, AreAskedAndWhatTheyDecideIsBlamed) {
  const LeftOut& of = GetParam();
  const bool casts = of.recipe == std::string("casts");
  Training run = small_run(of.family, casts ? "fp8-current" : of.recipe, of.layout);
  if (casts) run.recipe.operands->gathers_casts = true;
  const Values leaves = leaves_of_run(run);
  const Training single{run.config, run.recipe, {}, 1};
  const Trace alone = reference_trace(single, reference(plan(run.config, run.recipe, {}), leaves));
  Joints joints;
  EXPECT_FALSE(joints.reached());
  of.replace(joints);
  const Verdict verdict =
      check(alone, train_step(run, leaves, joints, find_backend("reference")), {});
  EXPECT_TRUE(joints.reached());
  ASSERT_FALSE(verdict.findings.empty());
  EXPECT_EQ(verdict.blamed, of.blamed);
}

INSTANTIATE_TEST_SUITE_P(Of, Decisions, testing::ValuesIn(all),
                         [](const auto& of) { return std::string(of.param.name); });

}  // namespace
}  // namespace plumb::joints_test
