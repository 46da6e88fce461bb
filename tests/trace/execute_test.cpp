// Do twins share what nothing split lies upstream of, and what do draws of noise add to the exact
// run?
#include "trace/execute.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/runs.hpp"

namespace plumb {
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

TEST(Execute, TwinsShareTheReferenceUpstreamOfTheSplitAndDifferBehindIt) {
  const Training run = small_run("llama", "bf16", "tp2");
  const Values leaves = leaves_of_run(run);
  const Graph one = plan(run.config, run.recipe, {}),
              many = plan(run.config, run.recipe, run.layout);
  const Values base = reference(one, leaves, to_gradients);
  const Values first = twin(many, one, base, 1, 1, to_gradients);
  const Values again = twin(many, one, base, 1, 1, to_gradients);
  const Values second = twin(many, one, base, 1, 2, to_gradients);
  const auto differs = touched(one, many);
  EXPECT_FALSE(differs.empty());
  for (const auto& [id, tensor] : base) {
    EXPECT_EQ(first.at(id)->values, again.at(id)->values) << id;
    if (differs.contains(id)) continue;
    EXPECT_EQ(first.at(id), tensor) << id;  // the very same tensor
  }
  EXPECT_NE(first.at("m0/head/out")->values, base.at("m0/head/out")->values);
  EXPECT_NE(first.at("m0/head/out")->values, second.at("m0/head/out")->values);
}

TEST(Execute, WithoutASplitATwinIsTheReference) {
  const Training run = small_run("gpt", "bf16");
  const Graph graph = plan(run.config, run.recipe, {});
  const Values base = reference(graph, leaves_of_run(run), to_gradients);
  EXPECT_EQ(twin(graph, graph, base, 1, 1, to_gradients), base);
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

}  // namespace
}  // namespace plumb
