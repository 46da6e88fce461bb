// Does a rewritten run take in, on every rank and in every layout, what was made beforehand? And
// does no error leave the module that makes it?
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/ops.hpp"
#include "model/joints/layers.hpp"
#include "model/plan/rewriting.hpp"
#include "model/plan/shards.hpp"
#include "model/plan/verify.hpp"
#include "model/run/rewriting.hpp"
#include "model/spec/manifest.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/rooms.hpp"
#include "tests/support/runs.hpp"
#include "trace/check.hpp"
#include "trace/execute.hpp"

namespace plumb::rewriting_test {
namespace {

Start small_start(const std::string& model, const std::string& recipe, const std::string& layout,
                  Rewriting how = Rewriting::generated) {
  const Training run = small_run(model, recipe, layout);
  return model::rewritten(Start{run, leaves_of_run(run)}, how);
}

Trace run_over_ranks(const Start& start, const Joints& joints = {}) {
  return train_step(start.run, start.leaves, joints, find_backend("reference"));
}

std::string first(const std::vector<Finding>& findings) {
  return findings.empty() ? "" : findings.front().id + ": " + findings.front().detail;
}

using Case = std::tuple<const char*, const char*, std::vector<const char*>>;
class RewrittenRun : public testing::TestWithParam<Case> {};

TEST_P(RewrittenRun, IsWhatItsPromiseMakesInEveryLayout) {
  const auto& [model, recipe, layouts] = GetParam();
  for (const char* layout : some_of(layouts)) {
    const Start start = small_start(model, recipe, layout);
    const Values promised = reference(plan(start.run), start.leaves);

    const Trace trace = run_over_ranks(start);
    const Merged made = merge(trace);

    EXPECT_EQ(first(made.findings), "") << layout;
    for (const auto& [id, tensor] : promised) {
      ASSERT_TRUE(made.values.contains(id)) << layout << " " << id;
      ASSERT_EQ(*made.values.at(id), *tensor) << layout << " " << id;
    }
    const Shards held = promised_shards(start.run, *trace.graph, made.values);
    EXPECT_EQ(first(misplaced(trace, held)), "") << layout;
  }
}

const std::vector<const char*> dense{"dp1,tp1",
                                     "dp2,tp2,sp",
                                     "tp2,cp2",
                                     "dp2,cp2:ring,tp2,sp,overlap:3",
                                     "dp2,pp2,tp2,sp,zero3,recompute:selective",
                                     "pp2:1+1,recompute,zero1,dp2",
                                     "dp2,zero2,tp2,offload,overlap:3"};
const std::vector<const char*> of_experts{"dp2,tp2,sp", "dp2,ep2,tp2,sp,zero3,pp2,recompute",
                                          "cp2:ring,dp4,ep2,zero1"};

INSTANTIATE_TEST_SUITE_P(
    All, RewrittenRun,
    testing::Values(Case{"gpt", "bf16", dense}, Case{"llama+sinks+qk_norm", "fp32", dense},
                    Case{"gpt+mtp", "fp8-delayed", dense},
                    Case{"llama+mtp+documents=2+latent=16+shared_key=4", "fp16", dense},
                    Case{"llama+dropout=0.2", "nvfp4", dense},
                    Case{"gpt-moe+capacity=0.6", "bf16", of_experts},
                    Case{"llama-moe+mtp", "fp8-block", of_experts}));

TEST(RewrittenPromise, HasNoModuleThatTakesInWhatAnotherMade) {
  for (const char* model : {"gpt+mtp", "llama+latent=16+dropout=0.1", "llama-moe"}) {
    const Training run = small_run(model, "fp8-block");
    const Graph before = plan(run);
    const Graph graph = rewritten(before);
    std::set<std::string> made;
    for (const Node& node : graph.nodes) {
      const std::string here = module_of(node.outputs.front());
      for (const std::string& id : node.inputs) {
        if (!made.contains(id)) continue;
        EXPECT_EQ(module_of(id), here) << node.outputs.front() << " takes in " << id;
      }
      for (const std::string& id : node.outputs) {
        const bool of_stream =
            id.ends_with("/out") || id.ends_with("/grad_in") || id.ends_with("/grad_out");
        if (of_stream) made.insert(id);
      }
    }
    EXPECT_EQ(handed_on(graph).size(), 0U);
    EXPECT_GT(leaves_of(graph).size(), leaves_of(before).size());
  }
}

TEST(RewrittenPromise, NamesModules) {
  EXPECT_EQ(module_of("m3/layers.12.attn.qkv/grad_in"), "layers.12.attn");
  EXPECT_EQ(module_of("layers.0.mlp.router.weight/main_grad"), "layers.0.mlp");
  EXPECT_EQ(module_of("m0/layers.1.add/grad_out"), "layers.1.add");
  EXPECT_EQ(module_of("m0/embedding.dropout/out"), "embedding");
  EXPECT_EQ(module_of("m0/mtp.norm_hidden/out"), "mtp.norm_hidden");
  EXPECT_EQ(module_of("m0/head/out"), "head");
  EXPECT_EQ(module_of("m0/head/grad_out"), "loss");
  EXPECT_EQ(module_of("m0/mtp.head/grad_out"), "mtp.loss");
}

// The modules whose tensors, up to the gradients of each micro-batch, a joint changes.
std::set<std::string> changed_modules(const Start& start, const Joints& joints) {
  const Merged healthy = merge(run_over_ranks(start)),
               broken = merge(run_over_ranks(start, joints));
  std::set<std::string> modules;
  for (const auto& [id, tensor] : broken.values) {
    if (id.starts_with('m') && !(*healthy.values.at(id) == *tensor)) modules.insert(module_of(id));
  }
  return modules;
}

TEST(RewrittenRun, KeepsAnErrorInTheModuleThatMakesIt) {
  const auto of_mlp = [](const Where& where) {
    return where.module == "layers.0.mlp.fc1" && where.micro_batch == 1;
  };
  Joints forward, backward;
  forward.linear.after_product.replace(
      [&](const Where& where, const auto&, const auto&, Tensor& y) {
        if (of_mlp(where)) y.values[0] += 1;
      });
  backward.linear.sums_input_gradient.replace([&](const Where& where) { return !of_mlp(where); });
  for (const Joints* joints : {&forward, &backward}) {
    Start start = small_start("gpt", "bf16", "tp2,pp2");
    EXPECT_EQ(changed_modules(start, *joints), std::set<std::string>{"layers.0.mlp"});
    start.run.rewriting = Rewriting::none;
    EXPECT_GT(changed_modules(start, *joints).size(), 2U);
  }
}

// The verdict on a candidate that rewrites by `leaves` in place of what it should take.
Verdict verdict_on(const Start& start, const Values& leaves) {
  const Trace reference = run_reference(start);
  const Trace candidate = train_step(start.run, leaves, {}, find_backend("reference"));
  return check(reference, merge_verified(reference), candidate, merge_verified(candidate), {});
}

TEST(RewrittenRun, IsJudgedLikeAnyOther) {
  for (const Rewriting how : {Rewriting::generated, Rewriting::reference}) {
    const Start start = small_start("gpt", "bf16", "dp2,tp2,sp", how);
    const Verdict v = verdict_on(start, start.leaves);
    EXPECT_EQ(v.exit_code(), 0) << first(v.findings);
  }
}

TEST(RewrittenRun, IsAccusedIfItTakesInSomethingElse) {
  const Start start = small_start("gpt", "bf16", "dp2,tp2,sp");
  for (const std::string id : {"m1/layers.1.norm1/out", "m2/layers.0.mlp.fc1/grad_in"}) {
    Values other = start.leaves;
    Tensor x = *other.at(rewritten_id(id));
    x.values[5] *= 1 + 0x1p-7F;
    other[rewritten_id(id)] = std::make_shared<const Tensor>(x);
    EXPECT_EQ(
        first(verdict_on(start, other).findings),
        rewritten_id(id) + ": the runs start from different values: load the same state and data");
    other.erase(rewritten_id(id));
    const Verdict v = verdict_on(start, other);
    ASSERT_EQ(v.exit_code(), 1);
    const auto missing = std::ranges::find(v.findings, rewritten_id(id), &Finding::id);
    ASSERT_NE(missing, v.findings.end());
    EXPECT_EQ(missing->statistic, "structure");
  }
}

TEST(RewrittenRun, IsAccusedIfOneRankDoesNotTakeItsPiece) {
  const Start start = small_start("gpt", "bf16", "dp2,tp2,sp");
  const Trace reference = run_reference(start);
  for (const std::string id : {"m0/layers.1.attn.add/out", "m3/head/grad_in"}) {
    Trace candidate = run_over_ranks(start);
    for (RankRecord& rank : candidate.ranks) {
      if (rank.shards.erase(rewritten_id(id)) > 0) break;
    }
    const auto findings = merge_verified(candidate).findings;
    EXPECT_NE(std::ranges::find(findings, rewritten_id(id), &Finding::id), findings.end());
  }
}

// Mean and deviation of a column.
std::pair<double, double> moments(const Tensor& x, std::size_t column) {
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < x.rows; ++i) {
    sum += x(i, column);
    squares += x(i, column) * x(i, column);
  }
  const double mean = sum / static_cast<double>(x.rows);
  return {mean, std::sqrt(std::max(0.0, squares / static_cast<double>(x.rows) - mean * mean))};
}

TEST(Generated, LooksLikeWhatTheReferenceHandsOn) {
  Training run = small_run("gpt", "bf16");
  run.config.sequence = 128;
  run.config.sequences = 8;
  run.config.micro_batches = 1;
  const Start start{run, leaves_of_run(run)};
  const Values made = reference(plan(run), start.leaves);
  const Start by_numbers = model::rewritten(start, Rewriting::generated);
  const Start by_itself = model::rewritten(start, Rewriting::reference);
  const auto taken = handed_on(plan(run));
  EXPECT_GT(taken.size(), 20U);
  for (const auto& [id, format] : taken) {
    const Tensor& like = *made.at(id);
    const Tensor& x = *by_numbers.leaves.at(rewritten_id(id));
    EXPECT_EQ(*by_itself.leaves.at(rewritten_id(id)), like) << id;
    Tensor rounded = x;
    round_to_format(rounded.values, format);
    EXPECT_EQ(rounded, x) << id;
    std::size_t equal = 0;
    for (std::size_t e = 0; e < x.size(); ++e) equal += x.values[e] == like.values[e] ? 1 : 0;
    EXPECT_LT(equal, x.size() / 8) << id;
    for (std::size_t j = 0; j < x.cols; ++j) {
      const auto [mean, deviation] = moments(x, j);
      const auto [of_mean, of_deviation] = moments(like, j);
      // Six deviations of the mean of n numbers; a variance of them scatters by sqrt(2 / n).
      const double n = static_cast<double>(x.rows);
      EXPECT_NEAR(mean, of_mean, 6 * of_deviation / std::sqrt(n) + 0x1p-7 * std::fabs(of_mean))
          << id << " " << j;
      EXPECT_NEAR(deviation, of_deviation, of_deviation * 6 / std::sqrt(2 * n)) << id << " " << j;
    }
  }
}

// Of what two tensors have beyond their columns' means.
double correlation(const Tensor& a, const Tensor& b) {
  double both = 0, of_a = 0, of_b = 0;
  for (std::size_t j = 0; j < a.cols; ++j) {
    const double mean_a = moments(a, j).first, mean_b = moments(b, j).first;
    for (std::size_t i = 0; i < a.rows; ++i) {
      const double x = a(i, j) - mean_a, y = b(i, j) - mean_b;
      both += x * y;
      of_a += x * x;
      of_b += y * y;
    }
  }
  return both / std::sqrt(of_a * of_b);
}

TEST(Generated, DependsOnSeedStepAndIdAlone) {
  const auto made = [](std::uint64_t seed, int step, const char* layout) {
    Training run = small_run("gpt", "bf16", layout);
    const Values leaves = leaves_of_run(run);
    run.config.seed = seed;
    run.step = step;
    return model::rewritten(Start{run, leaves}, Rewriting::generated).leaves;
  };
  const std::string id = rewritten_id("m0/layers.0.norm1/out");
  const Values one = made(1, 1, "dp1,tp1");
  EXPECT_EQ(*one.at(id), *made(1, 1, "dp2,tp2,sp").at(id));
  EXPECT_FALSE(*one.at(id) == *made(2, 1, "dp1,tp1").at(id));
  EXPECT_FALSE(*one.at(id) == *made(1, 2, "dp1,tp1").at(id));
  const Tensor& x = *one.at(id);
  for (const char* other : {"m0/layers.0.norm2/out", "m1/layers.0.norm1/out"}) {
    EXPECT_LT(std::fabs(correlation(x, *one.at(rewritten_id(other)))),
              6 / std::sqrt(static_cast<double>(x.size())))  // six deviations
        << other;
  }
}

std::string refusal(const std::function<void()>& act) {
  try {
    act();
  } catch (const Failure& failure) {
    return failure.what();
  }
  return "";
}

TEST(RewrittenTrace, IsHeldAgainstNoOtherKind) {
  const Start start = small_start("gpt", "bf16", "tp2");
  Start normal = start;
  normal.run.rewriting = Rewriting::none;
  const Trace reference = run_reference(normal), candidate = run_over_ranks(start);
  EXPECT_EQ(
      refusal([&] { check(reference, candidate, {}); }),
      "these runs have not the same rewrite (reference none, candidate generated); trace both "
      "alike");
}

TEST(RewrittenTrace, StartsNoStep) {
  const Trace trace = run_reference(small_start("gpt", "bf16", "dp1,tp1"));
  const Training run = small_run("gpt", "bf16");
  EXPECT_NE(refusal([&] {
              start_of(run.config, run.recipe, {}, small_text(), &trace);
            }).find("no step goes on from it"),
            std::string::npos);
}

TEST(RewrittenTrace, IsRefusedWithAnotherShapeOrWord) {
  Trace trace = run_reference(small_start("gpt", "bf16", "dp1,tp1"));
  EXPECT_EQ(refusal([&] { merge_verified(trace); }), "");
  const std::string id = rewritten_id("m0/layers.0.norm1/out");
  trace.ranks[0].shards[id] = {whole(1, 1), Tensor(1, 1), bf16};
  EXPECT_NE(refusal([&] { merge_verified(trace); }).find("'" + id + "' is 1x1"), std::string::npos);
  trace.manifest.settings["rewrite"] = "other";
  EXPECT_NE(refusal([&] { merge_verified(trace); }).find("'other'"), std::string::npos);
}

TEST(Rewriting, RefusesWhatIsNotFinite) {
  const Training run = small_run("gpt", "fp16");
  Values leaves = leaves_of_run(run);
  leaves["loss_scale/scale@previous"] = std::make_shared<const Tensor>(1, 1, 0x1p60F);
  EXPECT_NE(refusal([&] {
              model::rewritten(Start{run, leaves}, Rewriting::generated);
            }).find("is not finite"),
            std::string::npos);
}

// TTrace's estimate: every module's response to what it takes in, and to nothing else.
TEST(PerturbedRewrittenRun, MovesWhatModulesTakeIn) {
  const Start start = small_start("gpt", "bf16", "dp1,tp1");
  const Merged base = merge(run_reference(start)), moved = merge(run_perturbed(start, 1));
  for (const auto& [id, format] : handed_on(plan(small_run("gpt", "bf16")))) {
    const std::string taken = rewritten_id(id);
    EXPECT_EQ(*moved.values.at(taken), *base.values.at(taken)) << id;
    const Tensor &x = *moved.values.at(id), &y = *base.values.at(id);
    double error = 0, size = 0;
    for (std::size_t e = 0; e < x.size(); ++e) {
      error += std::pow(x.values[e] - y.values[e], 2);
      size += std::pow(y.values[e], 2);
    }
    EXPECT_GT(error, 0) << id;
    EXPECT_LT(std::sqrt(error / size), 0x1p-4) << id;
  }
}

}  // namespace
}  // namespace plumb::rewriting_test
