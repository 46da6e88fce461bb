// Where nothing can be rounded, does every layout give the same bits?
//
// Each linear node of a plan is evaluated with inputs of -1, 0 and 1. A sum of up to 256 products
// of these is a whole number that BF16 holds, as is every part of it, in any order: so parts, wires
// and running sums lose nothing, and what is split must equal what is not.
#include <gtest/gtest.h>

#include <set>

#include "number/philox.hpp"
#include "tests/support/rooms.hpp"
#include "tests/support/runs.hpp"
#include "trace/execute.hpp"

namespace plumb::exact_test {
namespace {

const std::set<std::string> linear_ops{
    "gemm",         "sum",           "column_sum",        "embedding_grad",
    "grouped_gemm", "grouped_wgrad", "grouped_column_sum"};

// The same shape, in -1, 0 and 1; choices of rows stay what they are.
Tensor small_numbers(const std::string& id, const Tensor& like) {
  if (id.ends_with("/ids") || id.ends_with("/routing") || id.ends_with("/kept")) return like;
  Tensor x = like;
  const std::uint64_t key = key_of(5, id);
  for (std::size_t e = 0; e < x.size(); ++e) {
    x.values[e] = static_cast<float>(static_cast<int>(3 * uniform(key, e)) - 1);
  }
  return x;
}

std::vector<Tensor> evaluated(const Node& node, const Values& shapes) {
  std::vector<Tensor> inputs;
  for (const std::string& id : node.inputs) inputs.push_back(small_numbers(id, *shapes.at(id)));
  RealRoundings roundings;
  Call<float> call{{}, node.attributes, node.how, roundings};
  for (const Tensor& input : inputs) call.inputs.push_back(&input);
  return find_operation(node.op)->evaluate(call);
}

class ExactArithmetic : public testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(ExactArithmetic, IsTheSameInEveryLayout) {
  const auto [family, recipe] = GetParam();
  const Training run = small_run(family, recipe);
  const Graph one = plan(run.config, run.recipe, {});
  const Values shapes = reference(one, leaves_of_run(run));
  std::set<std::string> split;
  for (const char* layout :
       {"tp2", "dp2", "dp4", "tp2,sp", "dp2,tp2,sp", "cp2", "cp4,tp2,sp", "cp2:ring,tp2",
        "cp2:ulysses,dp2", "pp2", "dp2,pp2,tp2,sp,zero3", "dp2,ep2", "dp4,ep2,tp2,sp,cp2"}) {
    const bool of_experts = std::string(layout).find("ep") != std::string::npos;
    if (of_experts && run.config.experts == 0) continue;
    const Graph many = plan(run.config, run.recipe, parse_layout(layout));
    ASSERT_EQ(many.nodes.size(), one.nodes.size());
    for (std::size_t i = 0; i < one.nodes.size(); ++i) {
      const Node& a = one.nodes[i];
      const Node& b = many.nodes[i];
      if (!linear_ops.contains(a.op) || a.how == b.how) continue;
      ASSERT_EQ(evaluated(a, shapes), evaluated(b, shapes)) << layout << " " << a.outputs.front();
      split.insert(a.op);
    }
  }
  EXPECT_TRUE(split.contains("gemm") && split.contains("sum"));
  const bool experts = run.config.experts > 0, biases = run.config.family == Family::gpt;
  EXPECT_EQ(split.contains("grouped_gemm"), experts);
  EXPECT_EQ(split.contains("grouped_wgrad"), experts);
  EXPECT_EQ(split.contains("grouped_column_sum"), experts && biases);
}

INSTANTIATE_TEST_SUITE_P(Of, ExactArithmetic,
                         testing::Combine(testing::Values("gpt", "llama", "gpt-moe", "llama-moe"),
                                          testing::Values("fp32", "bf16", "fp8-current")));

}  // namespace
}  // namespace plumb::exact_test
