// Is each plan a graph that can be run, and is each damaged one refused with what is wrong?
#include "trace/check_graph.hpp"

#include <gtest/gtest.h>

#include "model/plan/plan.hpp"
#include "model/spec/recipe.hpp"
#include "tests/support/rooms.hpp"
#include "tests/support/runs.hpp"

namespace plumb::check_graph_test {
namespace {

Graph sound() {
  return {{{"gemm", {"x", "w"}, {"y"}, {{"transpose_a", 0}, {"transpose_b", 0}}, {}},
           {"gelu", {"y"}, {"z"}, {}, {}},
           {"top_k", {"z"}, {"ids"}, {{"k", 2}}, {}}}};
}

std::string refusal(const Graph& graph) {
  const auto leaves = check_graph(graph);
  return leaves ? "" : leaves.error().detail;
}

TEST(CheckGraph, ReturnsTheLeavesOfASoundGraph) {
  EXPECT_EQ(*check_graph(sound()), (std::vector<std::string>{"x", "w"}));
}

TEST(CheckGraph, RefusesWhatTheCatalogueDoesNotKnow) {
  Graph graph = sound();
  graph.nodes[1].op = "gelu_of_elsewhere";
  EXPECT_EQ(refusal(graph), "node 1, of 'z': 'gelu_of_elsewhere' is no operation of the catalogue");
}

TEST(CheckGraph, RefusesMissingAndUnknownAttributes) {
  Graph graph = sound();
  graph.nodes[2].attributes.clear();
  EXPECT_EQ(refusal(graph), "node 2, of 'ids': top_k: the attribute 'k' is missing");
  graph.nodes[2].attributes = {{"k", 2}, {"kk", 2}};
  EXPECT_EQ(refusal(graph), "node 2, of 'ids': top_k: it has no attribute 'kk'");
  graph.nodes[2].attributes = {{"k", 1.5}};
  EXPECT_EQ(refusal(graph),
            "node 2, of 'ids': top_k: the attribute 'k' is 1.5, and must be a whole number from 1 "
            "to 2147483648");
}

TEST(CheckGraph, RefusesOtherNumbersOfInputsAndOutputs) {
  Graph graph = sound();
  graph.nodes[0].inputs = {"x"};
  EXPECT_EQ(refusal(graph), "node 0, of 'y': gemm: it has 1 input, and takes A, B, [bias]");
  graph = sound();
  graph.nodes[1].outputs = {"z", "zz"};
  EXPECT_EQ(refusal(graph), "node 1, of 'z': gelu: it makes 2 tensors, and should make 1");
  graph.nodes[1].outputs.clear();
  EXPECT_EQ(refusal(graph), "node 1: gelu: it makes 0 tensors, and should make 1");
}

TEST(CheckGraph, RefusesWhatIsMadeTwiceOrTooLate) {
  Graph graph = sound();
  graph.nodes[2].outputs = {"y"};
  EXPECT_NE(refusal(graph), "");
  graph = sound();
  std::swap(graph.nodes[0], graph.nodes[1]);
  EXPECT_EQ(refusal(graph), "node 1, of 'y': 'y' was read before it is made");
}

// The shapes of every plan are looked at wherever one runs (trace/execute.cpp).
TEST(CheckGraph, AcceptsEveryPlan) {
  const char* models[] = {"gpt",     "llama+sinks+documents=3", "gpt+dropout=10",
                          "gpt-moe", "llama-moe+shared=1",      "llama+qk_norm+mtp=1"};
  for (const char* model : models) {
    for (const Recipe& recipe : all_recipes()) {
      for (const char* layout : {"dp1,tp1", "cp2,tp2", "dp2,tp2,sp"}) {
        const Training run = small_run(model, recipe.id, layout);
        if (!wrong_draws(run.recipe, run.layout, run.config).empty()) continue;
        EXPECT_EQ(refusal(plan(run.config, run.recipe, run.layout, run.step)), "")
            << model << " " << recipe.id << " " << layout;
      }
    }
  }
}

}  // namespace
}  // namespace plumb::check_graph_test
