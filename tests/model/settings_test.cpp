// With what a model may have besides (dropout, smooth labels ...): does the model over ranks keep
// the promise bit for bit, in every layout, and does the setting matter at all?
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "kernels/backend.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/rooms.hpp"
#include "tests/support/runs.hpp"
#include "trace/execute.hpp"
#include "trace/merge.hpp"

namespace plumb::settings_test {
namespace {

// A family with settings, and layouts.
using Case = std::pair<std::string, std::vector<const char*>>;

// Where experts are balanced by a bias: one that moves some choices. It is 0 at first.
Values uneven(Values leaves) {
  for (auto& [id, tensor] : leaves) {
    if (!id.ends_with(".router/bias@previous")) continue;
    Tensor bias = *tensor;
    for (std::size_t e = 0; e < bias.rows; ++e) bias.values[e] = 0.05F * static_cast<float>(e);
    tensor = std::make_shared<const Tensor>(std::move(bias));
  }
  return leaves;
}

// Does the model over these ranks make what is promised for them, and what one rank makes where the
// layout cannot show?
void keeps_its_promise(Training run, const char* layout, const Values& leaves) {
  run.layout = parse_layout(layout);
  const Graph one = plan(run.config, run.recipe, {});
  const Graph many = plan(run.config, run.recipe, run.layout);
  const std::set<std::string> differs = touched(one, many);
  const Values alone = reference(one, leaves), promised = reference(many, leaves);
  const Merged made = merge(train_step(run, leaves, Joints(), find_backend("reference")));
  EXPECT_TRUE(made.findings.empty()) << layout << " " << made.findings.front().id;
  for (const auto& [id, tensor] : alone) {
    ASSERT_TRUE(made.values.contains(id)) << layout << " " << id;
    ASSERT_EQ(*made.values.at(id), *promised.at(id)) << layout << " " << id;
    if (differs.contains(id)) continue;
    ASSERT_EQ(*promised.at(id), *tensor) << layout << " " << id;
  }
}

class Settings : public testing::TestWithParam<std::tuple<Case, const char*>> {};

TEST_P(Settings, ArePromisedAndKeptInEveryLayout) {
  const auto& [of, recipe] = GetParam();
  const auto& [family, layouts] = of;
  Training run = small_run(family.substr(0, family.find('+')), recipe);
  const Values without = reference(plan(run.config, run.recipe, {}), leaves_of_run(run));
  run = small_run(family, recipe);
  const Values leaves = uneven(leaves_of_run(run));
  const Values alone = reference(plan(run.config, run.recipe, {}), leaves);
  EXPECT_NE(*alone.at("clip/grad_norm"), *without.at("clip/grad_norm"));
  for (const char* layout : some_of(layouts)) keeps_its_promise(run, layout, leaves);
}

std::vector<Case> cases() {
  const std::vector<const char*> dense{"dp1",
                                       "tp2,sp",
                                       "dp2,zero3,overlap:7",
                                       "cp2,tp2,sp,recompute",
                                       "pp2,offload,overlap:3",
                                       "dp2,pp2,tp2,sp,zero3,recompute:uniform2"};
  const std::vector<const char*> of_experts{"dp1", "tp2,sp", "dp2,pp2,tp2,zero3,recompute",
                                            "dp4,ep2,tp2,sp", "dp2,cp2,ep2,tp2,sp"};
  return {{"gpt+mtp=1", dense},
          {"llama+mtp=1+dropout=0.1+label_smoothing=0.1", dense},
          {"llama-moe+mtp=1+balance_bias=0.001",
           {"dp1", "dp2,ep2,tp2,sp,zero3,pp2,recompute", "cp2:ring,pp2,recompute:selective"}},
          {"gpt+latent=12", dense},
          {"llama+latent=1", {"dp1", "tp2,sp"}},
          {"llama+latent=20+shared_key=6+qk_norm+mtp=1+documents=3", dense},
          {"llama-moe+latent=12+shared_key=4", of_experts},
          {"gpt+dropout=0.3", dense},
          {"llama-moe+dropout=0.3+documents=3", {"dp4,ep2,tp2,sp", "cp2:ulysses"}},
          {"gpt-moe+capacity=0.8", of_experts},
          {"llama-moe+capacity=0.01", of_experts},
          {"llama-moe+balance_bias=0.001", of_experts},
          {"llama-moe+capacity=1.0+balance_bias=0.005",
           {"dp2,ep2,tp2,sp,zero3,pp2,recompute", "cp4:ring,tp2,sp"}},
          {"llama+label_smoothing=0.2", dense},
          {"gpt+other_head", dense},
          {"llama+other_head+mtp=1+vocabulary_padding=2", dense},
          {"llama+rope_stretch=4", dense},
          {"llama+rope_stretch=40+documents=3+latent=20+shared_key=6", {"tp2,sp", "cp2:ulysses"}},
          {"gpt+last_fewer=1", {"dp1", "dp2,tp2,sp", "dp2,pp2,overlap:3", "cp2:ulysses,recompute"}},
          {"llama-moe+last_fewer=1+capacity=1.0+documents=3",
           {"dp1", "dp4,ep2,tp2,sp", "dp2,cp2,ep2,pp2"}},
          {"gpt+attention_dropout=0.3",
           {"dp1", "tp2,sp", "cp2,tp2,sp,recompute", "cp2:ulysses,pp2", "cp2:ring",
            "dp2,tp2,recompute:selective"}},
          {"llama+attention_dropout=0.1+sinks+documents=3+dropout=0.1",
           {"dp1", "tp2,sp", "cp2:ring,tp2,zero3", "cp2:ulysses", "cp2"}},
          {"llama+sinks+documents=3+adapter=4",
           {"tp4", "tp4,sp,recompute", "dp2,tp4,pp2,zero3,overlap:3"}},
          {"gpt+adapter=4", dense},
          {"llama+adapter=6+qk_norm+sinks+mtp=1+dropout=0.1", dense},
          {"gpt+idle_layers=1", dense},
          {"llama+idle_layers=1+adapter=4+mtp=1+weight_decay=0.1", dense},
          {"gpt+weight_decay=0.1+vocabulary_padding=2", dense},
          {"llama-moe+weight_decay=0.01+vocabulary_padding=8+label_smoothing=0.05", of_experts}};
}

const auto name_of_both = [](const auto& of) {
  std::string name = std::get<0>(of.param).first + "_" + std::get<1>(of.param);
  std::ranges::replace_if(
      name, [](char c) { return !std::isalnum(c); }, '_');
  return name;
};
INSTANTIATE_TEST_SUITE_P(Of, Settings,
                         testing::Combine(testing::ValuesIn(cases()),
                                          testing::Values("bf16", "nvfp4")),
                         name_of_both);
INSTANTIATE_TEST_SUITE_P(
    OfAWideStream, Settings,
    testing::Combine(testing::Values(Case{"gpt+mtp=1+dropout=0.1", {"dp1", "cp2,tp2,sp,recompute"}},
                                     Case{"llama-moe+mtp=1", {"dp2,ep2,tp2,sp,zero3,pp2"}},
                                     Case{"llama+latent=12", {"tp2,sp", "pp2,overlap:3"}}),
                     testing::Values("bf16-stream32")),
    name_of_both);

TEST(Layouts, OfSixtyFourRanksKeepTheirPromise) {
  for (const char* layout : {"dp4,tp4,sp,cp2,pp2,zero1", "dp4,ep4,tp4,sp,cp2:ulysses,pp2"}) {
    const bool experts = std::string(layout).find("ep") != std::string::npos;
    Training run = small_run(experts ? "gpt-moe" : "gpt", "bf16");
    if (experts) run.config.heads = run.config.kv_heads = 8;
    EXPECT_EQ(parse_layout(layout).world_size(), 64);
    keeps_its_promise(run, layout, leaves_of_run(run));
  }
}

// With fewer key/value heads than ranks, down to one, each rank has a copy of its group's.
TEST(CopiedKeys, KeepTheirPromise) {
  for (const char* family : {"gpt", "llama", "llama-moe"}) {
    for (const char* recipe : {"bf16", "fp8-current"}) {
      Training run = small_run(family, recipe);
      run.config.kv_heads = 1;
      for (const char* layout : {"tp2", "tp4,sp,recompute:selective", "dp2,tp4,pp2,zero1"}) {
        keeps_its_promise(run, layout, leaves_of_run(run));
      }
    }
  }
}

TEST(VocabularyPadding, LetsTpDivideWhatBytesDoNot) {
  Training run = small_run("gpt", "bf16");
  run.config.heads = run.config.kv_heads = 6;
  run.config.width = 48;
  run.config.hidden = 96;
  EXPECT_THROW(check_layout(parse_layout("tp3"), run.config, 64), Failure);
  run.config.vocabulary_padding = 2;
  keeps_its_promise(run, "tp3", leaves_of_run(run));
}

// Rows of the embedding that no token names have no gradient: only the decay moves them.
TEST(WeightDecay, TakesTheRatesShareOfMatricesAndLeavesNormsAlone) {
  Training run = small_run("llama", "fp32");
  run.config.vocabulary_padding = 4;
  const auto after = [&](int decay) {
    run.config.weight_decay = decay;
    return reference(plan(run.config, run.recipe, {}), leaves_of_run(run));
  };
  const Values without = after(0), with = after(250'000);
  const auto share = static_cast<float>(run.config.rate * 0.25);
  for (std::size_t i = Config::bytes; i < Config::bytes + 4; ++i) {
    for (std::size_t j = 0; j < 32; ++j) {
      const float w = (*with.at("embedding.weight/master@previous"))(i, j);
      EXPECT_EQ((*without.at("embedding.weight/master"))(i, j), w);
      EXPECT_EQ((*with.at("embedding.weight/master"))(i, j), w - share * w);
    }
  }
  EXPECT_NE(*with.at("layers.0.mlp.fc1.weight/master"),
            *without.at("layers.0.mlp.fc1.weight/master"));
  EXPECT_EQ(*with.at("layers.0.norm1.weight/master"), *without.at("layers.0.norm1.weight/master"));
}

struct Some {
  bool fprop, dgrad, wgrad;
};

const auto name_of_recipe = [](const auto& of) {
  std::string name = of.param;
  std::ranges::replace(name, '-', '_');
  return name;
};

class Products : public testing::TestWithParam<const char*> {};

// Which products a recipe names take its short copies, and the others the tensors themselves.
TEST_P(Products, ThatARecipeNamesAloneTakeShortCopies) {
  for (const char* family : {"gpt", "llama-moe"}) {
    Training run = small_run(family, GetParam());
    for (const Some& some : {Some{true, false, false}, Some{false, true, false},
                             Some{false, false, true}, Some{true, true, false}}) {
      OperandCasts& casts = *run.recipe.operands;
      std::tie(casts.fprop, casts.dgrad, casts.wgrad) =
          std::tie(some.fprop, some.dgrad, some.wgrad);
      std::map<std::string, std::size_t> short_ones, all;
      for (const Node& node : plan(run.config, run.recipe, {}).nodes) {
        const bool linear =
            node.op == "grouped_wgrad" || node.op == "grouped_gemm" ||
            (node.op == "gemm" && node.outputs[0].find("router") == std::string::npos);
        if (!linear) continue;
        const std::string& y = node.outputs[0];
        const std::string product = y.ends_with("/out")       ? "fprop"
                                    : y.ends_with("/grad_in") ? "dgrad"
                                                              : "wgrad";
        const auto is_short = [](const std::string& id) {
          return id.find("operand") != std::string::npos;
        };
        short_ones[product] += std::ranges::any_of(node.inputs, is_short) ? 1 : 0;
        ++all[product];
      }
      for (const auto& [product, takes] : {std::pair<std::string, bool>{"fprop", some.fprop},
                                           {"dgrad", some.dgrad},
                                           {"wgrad", some.wgrad}}) {
        EXPECT_EQ(short_ones[product], takes ? all[product] : 0) << product;
        EXPECT_GT(all[product], 0U);
      }
      const bool experts = run.config.experts > 0;
      keeps_its_promise(run,
                        experts ? "dp2,tp2,sp,zero3,pp2,recompute" : "cp2,tp2,dp2,zero3,overlap:5",
                        leaves_of_run(run));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Products,
                         testing::Values("tf32", "fp8-current", "fp8-delayed", "mxfp8", "nvfp4"),
                         name_of_recipe);

class Promotion : public testing::TestWithParam<const char*> {};

// Sums of so many terms each, in the products that take short copies, and in no other.
TEST_P(Promotion, PartsTheSumsOfTheProductsThatARecipeNames) {
  for (const char* family : {"gpt", "llama-moe"}) {
    Training run = small_run(family, GetParam());
    const Values before = reference(plan(run.config, run.recipe, {}), leaves_of_run(run));
    run.recipe.operands->chain = 8;
    run.recipe.operands->dgrad = false;
    std::size_t parted = 0;
    for (const Node& node : plan(run.config, run.recipe, {}).nodes) {
      const bool has = node.attributes.contains("chain");
      parted += has ? 1 : 0;
      if (!has) continue;
      EXPECT_TRUE(node.op == "gemm" || node.op.starts_with("grouped_")) << node.op;
      EXPECT_TRUE(node.outputs[0].ends_with("/out") || node.outputs[0].ends_with("/wgrad"));
      EXPECT_EQ(node.outputs[0].find("router"), std::string::npos);
    }
    EXPECT_GT(parted, 0U);
    const Values after = reference(plan(run.config, run.recipe, {}), leaves_of_run(run));
    const std::string gradient = "m0/layers.0.attn.qkv.weight/wgrad";  // FP32
    EXPECT_NE(*before.at(gradient), *after.at(gradient));
    for (const char* layout : {"dp1", "dp2,tp2,sp,zero3,pp2,recompute", "cp2,tp2,dp2,overlap:5"}) {
      keeps_its_promise(run, layout, leaves_of_run(run));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Promotion, testing::Values("fp8-block", "tf32"), [](const auto& of) {
  std::string name = of.param;
  std::ranges::replace(name, '-', '_');
  return name;
});

class Casts : public testing::TestWithParam<const char*> {};

// What ZeRO-3 gathers is already cast: the same bits, in fewer bytes.
TEST_P(Casts, AreGatheredInPlaceOfParameters) {
  for (const char* family : {"gpt", "llama-moe"}) {
    Training run = small_run(family, GetParam());
    run.recipe.operands->gathers_casts = true;
    const bool experts = run.config.experts > 0;
    for (const char* layout :
         {experts ? "dp2,ep2,tp2,zero3" : "dp2,pp2,tp2,zero3", "dp4,zero3,overlap:2,recompute"}) {
      keeps_its_promise(run, layout, leaves_of_run(run));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Casts, testing::Values("fp8-current", "fp8-delayed"), name_of_recipe);

// The mask is one of the step and the micro-batch, of the module, and of nothing else.
TEST(Dropout, DrawsAnotherMaskForEachModuleMicroBatchStepAndSeed) {
  Training run = small_run("gpt", "fp32");
  run.config.dropout = 500'000;
  const auto mask_of = [&](const std::string& id) {
    std::vector<bool> mask;
    const Values step = reference(plan(run.config, run.recipe, {}, run.step), leaves_of_run(run));
    for (const float x : step.at(id)->values) mask.push_back(x != 0);
    return mask;
  };
  std::vector<std::vector<bool>> masks{
      mask_of("m0/embedding.dropout/out"), mask_of("m1/embedding.dropout/out"),
      mask_of("m0/layers.0.attn.dropout/out"), mask_of("m0/layers.1.attn.dropout/out"),
      mask_of("m0/layers.0.mlp.dropout/out")};
  const std::vector<bool> of_gradient = mask_of("m0/layers.0.attn.dropout/grad_in");
  std::size_t moved = 0;
  for (std::size_t i = 0; i < of_gradient.size(); ++i) {
    EXPECT_TRUE(masks[2][i] || !of_gradient[i]) << i;  // tokens that do not count have none
    moved += of_gradient[i] ? 1 : 0;
  }
  EXPECT_GT(moved, of_gradient.size() / 4);
  run.step = 2;
  masks.push_back(mask_of("m0/embedding.dropout/out"));
  run.config.seed = 2;
  masks.push_back(mask_of("m0/embedding.dropout/out"));
  for (std::size_t i = 0; i < masks.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(masks[i], masks[j]) << i << " " << j;
  }
}

}  // namespace
}  // namespace plumb::settings_test
