// Is every bound that the program gives one for what was asked, and every other refused by name?
#include <fstream>
#include <nlohmann/json.hpp>

#include "bounds/operation.hpp"
#include "tests/cli/program.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::bound_test {
namespace {

// What other projects' tests read: the fields of bounds/bound-table.schema.json, and no others.
nlohmann::json table_as_its_schema_says(const std::string& arguments) {
  const Said said = plumb("bound --json " + arguments);
  EXPECT_EQ(said.code, 0) << said.out;
  const auto table = nlohmann::json::parse(said.out);
  std::ifstream file(PLUMB_SOURCE_DIR "/bounds/bound-table.schema.json");
  const auto schema = nlohmann::json::parse(file);
  EXPECT_EQ(table["schema"], schema["properties"]["schema"]["const"]);
  const auto& form = schema["$defs"]["bound"];
  for (const auto& row : table["bounds"]) {
    for (const auto& field : form["required"]) EXPECT_TRUE(row.contains(field)) << row;
    for (const auto& [name, value] : row.items()) {
      EXPECT_TRUE(form["properties"].contains(name)) << name;
    }
    EXPECT_NE(row.contains("refused"), row.contains("largest_bound")) << row;
  }
  return table["bounds"];
}

TEST(Bound, IsListedAsItsSchemaSaysForOneOperationAndForAll) {
  const auto all = table_as_its_schema_says("--all --machine h100");
  std::size_t bounded = 0;
  for (const auto& row : all) bounded += row.contains("largest_bound") ? 1 : 0;
  EXPECT_EQ(all.size(), 3 * all_operations().size());
  EXPECT_EQ(bounded, 3U);  // a product, in every mode: nothing else is known of that machine
  EXPECT_EQ(table_as_its_schema_says("gemm 16x64x16").size(), 1U);
  for (const std::string mode : {"deterministic", "moments"}) {
    const std::string of = "gemm 4096x64x4096 --machine h100 --recipe fp8-block --mode " + mode;
    EXPECT_EQ(table_as_its_schema_says(of).size(), 1U);
  }
}

TEST(Bound, OfGroupedProductsIsRefusedWhereTheRecipeCastsTheirOperands) {
  for (const std::string recipe :
       {"fp8-current", "fp8-delayed", "fp8-block", "mxfp8", "nvfp4", "tf32"}) {
    refused("bound grouped_gemm 16x64 --machine h100 --recipe " + recipe,
            "recipe '" + recipe + "' multiplies short copies of its operands, and only gemm has");
  }
  EXPECT_EQ(plumb("bound softmax 4x64 --recipe fp8-current").code, 0);  // casts no operand
}

TEST(Bound, IsRefusedWhereTheMachineTakesSumsInAnotherOrder) {
  refused("bound attention_grad 32x192 --machine ieee-sequential",
          "is for sums in the order that its file promises; take the machine ieee if");
  EXPECT_EQ(plumb("bound sum 8x64 --machine ieee-sequential").code, 0);
  EXPECT_EQ(plumb("bound sum 8x64 --machine ieee-pairwise").code, 0);
  refused("bound attention 32x192 --machine ieee-pairwise", "is for sums one after the other");
  refused("bound batched_gemm 8x64 --machine ieee-blocked128 --mode moments",
          "one after the other");
  EXPECT_EQ(plumb("bound batched_gemm 8x64 --machine ieee-blocked128").code, 0);
  EXPECT_EQ(plumb("bound gelu 8x64 --machine ieee-blocked128").code, 0);
  EXPECT_EQ(plumb("bound softmax 8x64 --machine trainium").code, 0);
  refused("bound softmax 8x64 --machine tpu", "its card does not say how sums are rounded");
}

TEST(Bound, IsOfTheOrderInWhichTheMachineTakesSums) {
  for (const std::string op : {"softmax", "rmsnorm", "layernorm", "column_sum", "cross_entropy"}) {
    for (const std::string card : {"ieee-sequential", "ieee-pairwise", "ieee-blocked128"}) {
      for (const std::string mode : {"deterministic", "probabilistic", "moments"}) {
        const Said said = plumb("bound " + op + " 8x64 --mode " + mode + " --machine " + card);
        EXPECT_EQ(said.code, 0) << said.out;
        EXPECT_NE(said.out.find("assumes sums in the order of the machine"), std::string::npos);
      }
    }
  }
}

TEST(Bound, SaysWhichOrderItAssumes) {
  EXPECT_NE(plumb("bound softmax 8x64").out.find("assumes sums in any order"), std::string::npos);
  EXPECT_NE(plumb("bound softmax 8x64 --mode moments").out.find("sums as a balanced tree"),
            std::string::npos);
  EXPECT_NE(plumb("bound gemm 8x64x8").out.find("assumes sums in any order"), std::string::npos);
  EXPECT_EQ(plumb("bound silu 8x64").out.find("assumes"), std::string::npos);
  EXPECT_NE(plumb("bound gelu 8x64").out.find("assumes any of the formulas sigmoid, tanh"),
            std::string::npos);
  EXPECT_NE(plumb("bound silu 8x64 --machine libraries")
                .out.find("assumes exp within 4 ulp and 1.2 more a unit"),
            std::string::npos);
}

// 3.4375 times its scale is 440, between the two largest numbers of E4M3.
TEST(Bound, ReachesToTheLargestNumberOfAFormat) {
  EXPECT_EQ(plumb("bound quantize 16x64").code, 0);
  EXPECT_EQ(plumb("bound quantize 16x64 --mode probabilistic").code, 0);
}

TEST(Bound, PartsAreRefusedWhereRanksShareNoSum) {
  refused("bound all_reduce 8x64 --parts 4", "its inputs are the ranks'");
  refused("bound softmax 8x64 --parts 4", "no sum that --parts would share");
  refused("bound gelu 8x64 --parts 2", "no sum that --parts would share");
  refused("bound --all --parts 2", "leave it out of --all");
  for (const std::string shared : {"gemm 8x64x8", "column_sum 64x8", "rmsnorm_wgrad 64x8"}) {
    EXPECT_EQ(plumb("bound " + shared + " --parts 4").code, 0) << shared;
  }
}

TEST(Bound, OfRanksInAnyOrderIsWiderAndSaysSo) {
  const std::string product = "gemm 8x64x8 --parts 4", any_order = product + " --any-rank-order";
  const Said promised = plumb("bound " + product), any = plumb("bound " + any_order);
  EXPECT_NE(promised.out.find("ranks one after the other"), std::string::npos) << promised.out;
  EXPECT_NE(any.out.find("ranks in any order"), std::string::npos) << any.out;
  const auto largest = [](const std::string& command) {
    return table_as_its_schema_says(command)[0]["largest_bound"].get<double>();
  };
  EXPECT_GT(largest(any_order), largest(product));
  refused("bound gemm 8x64x8 --parts 2 --any-rank-order", "two have one order");
  refused("bound gemm 8x64x8 --any-rank-order", "two have one order");
  refused("bound " + any_order + " --mode moments", "moments of a sum need its order");
}

TEST(Bound, OutsideAMatrixUnitAsksForAnotherCard) {
  refused("bound softmax 4x4 --machine h100", "runs outside of it, take the machine ieee");
  refused("bound gemm 4x4x4 --machine abacus", "known: a100, ");
  EXPECT_NE(plumb("bound --help").out.find("ieee-sequential"), std::string::npos);
}

TEST(Bound, OfAllLeavesOutWhatIsRefusedAndSaysWhich) {
  const std::string out = plumb("bound --all --machine ieee-sequential --recipe mxfp8").out;
  EXPECT_EQ(out.find(": refused"), std::string::npos);
  const std::string left_out = out.substr(std::min(out.find("left out"), out.size()));
  EXPECT_NE(left_out.find("attention_grad"), std::string::npos) << out;
  EXPECT_NE(out.find("each of these"), std::string::npos) << out;
  EXPECT_NE(out.find("left out, recipe 'mxfp8' multiplies"), std::string::npos) << out;
}

}  // namespace
}  // namespace plumb::bound_test
