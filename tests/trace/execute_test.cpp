// Does execution name what is missing? What do draws of noise add to the exact run?
#include "trace/execute.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/rooms.hpp"
#include "tests/support/runs.hpp"

namespace plumb::execute_test {
namespace {

const Extent to_gradients{Phase::reduce};

TEST(Execute, NamesTheMissingLeafAndWhatItIsFor) {
  const Training run = small_run("gpt", "bf16");
  const Graph graph = plan(run.config, run.recipe, {});
  Values leaves = leaves_of_run(run);
  leaves.erase("m1/data/ids");
  try {
    reference(graph, leaves);
    FAIL() << "accepted";
  } catch (const Failure& refused) {
    EXPECT_NE(std::string(refused.what()).find("'m1/data/ids'"), std::string::npos);
    EXPECT_NE(std::string(refused.what()).find("m1/embedding/out"), std::string::npos);
  }
}

TEST(Execute, RefusesAnIndexBeyondItsTable) {
  const Training run = small_run("gpt", "bf16");
  Values leaves = leaves_of_run(run);
  Tensor ids = *leaves.at("m1/data/ids");
  ids.values[3] = 1e9F;
  leaves["m1/data/ids"] = std::make_shared<const Tensor>(std::move(ids));
  try {
    reference(plan(run.config, run.recipe, {}), leaves);
    FAIL() << "accepted";
  } catch (const Failure& refused) {
    EXPECT_NE(std::string(refused.what()).find("an id is 1000000000,"), std::string::npos)
        << refused.what();
  }
}

double norm_of_difference(const Matrix<double>& a, const Matrix<double>& b) {
  double squares = 0;
  for (std::size_t e = 0; e < a.size(); ++e) squares += std::pow(a.values[e] - b.values[e], 2);
  return std::sqrt(squares);
}

// Where the first rounding happens, a draw lies as far from the exact run as the reference does;
// with every error of zero size, nowhere does it lie off at all.
TEST(Execute, NoiseIsTheReferencesOwnErrorsWithOtherSigns) {
  const Training run = small_run("gpt", "bf16");
  const Graph graph = plan(run.config, run.recipe, {});
  const Values leaves = leaves_of_run(run);
  const ValuesOf<double> truth = exact(graph, leaves, to_gradients);
  const Values rounded = reference(graph, leaves, to_gradients);
  Errors errors = rounding_errors(graph, leaves, to_gradients);
  const ValuesOf<double> noise = noise_draw(graph, leaves, errors, 1, 1, to_gradients);
  const std::string first = "m0/embedding/out";
  EXPECT_GT(norm_of_difference(*noise.at(first), *truth.at(first)), 0);
  EXPECT_NEAR(norm_of_difference(*noise.at(first), *truth.at(first)),
              norm_of_difference(converted<double>(*rounded.at(first)), *truth.at(first)), 1e-7);
  const std::string last = "m0/head/out";
  EXPECT_NE(noise.at(last)->values,
            noise_draw(graph, leaves, errors, 1, 2, to_gradients).at(last)->values);
  for (auto& [id, calls] : errors) {
    for (Tensor& call : calls) std::fill(call.values.begin(), call.values.end(), 0.0F);
  }
  const ValuesOf<double> silent = noise_draw(graph, leaves, errors, 1, 1, to_gradients);
  for (const auto& [id, tensor] : truth) EXPECT_EQ(*silent.at(id), *tensor) << id;
}

// The same numbers in two micro-batches round alike, in a draw as in any run; other tensors do not.
// Half an epsilon is the rounding of what was moved.
TEST(Perturbed, MovesByAnEpsilonOfTheFormat) {
  for (const auto& [recipe, epsilon] :
       {std::pair{"bf16", 0x1p-7}, {"fp16", 0x1p-10}, {"fp32", 0x1p-23}}) {
    const Training run = small_run("gpt", recipe);
    const Graph graph = plan(run.config, run.recipe, {});
    const Values leaves = leaves_of_run(run);
    const Values healthy = reference(graph, leaves);
    const Values other = perturbed(graph, leaves, "/embedding/out", 1);
    const Tensor& before = *healthy.at("m0/embedding/out");
    const Tensor& after = *other.at("m0/embedding/out");
    for (std::size_t e = 0; e < before.size(); ++e) {
      const double x = std::fabs(static_cast<double>(before.values[e]));
      const double moved = std::fabs(static_cast<double>(after.values[e] - before.values[e]));
      if (x < 0x1p-10) continue;  // fp16 is coarser there
      ASSERT_GE(moved, 0.5 * epsilon * x) << recipe;
      ASSERT_LE(moved, 1.5 * epsilon * x) << recipe;
    }
  }
}

TEST(Draw, IsTheSameInEveryMicroBatch) {
  std::vector<Tensor> drawn;
  for (const std::string out : {"m0/layers.0.x/out", "m1/layers.0.x/out", "m0/layers.1.x/out"}) {
    Node node;
    node.op = "gemm";
    node.inputs = {"a", "b"};
    node.outputs = {out};
    node.attributes = {{"transpose_a", 0}, {"transpose_b", 0}};
    node.how.parts = 2;
    node.how.wire = bf16;
    std::vector<Values> twins{{{"a", std::make_shared<const Tensor>(5, 32, 0.3F)},
                               {"b", std::make_shared<const Tensor>(32, 40, 0.7F)}}};
    draw(node, twins, 1);
    drawn.push_back(*twins.front().at(out));
  }
  EXPECT_EQ(drawn[0], drawn[1]);
  EXPECT_NE(drawn[0], drawn[2]);
}

}  // namespace
}  // namespace plumb::execute_test
