// Do the promised gradients agree with central differences of the promised loss, in FP64?
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/runs.hpp"
#include "trace/execute.hpp"

namespace plumb {
namespace {

double loss_with(const Graph& graph, Values leaves, const std::string& id, std::size_t e,
                 float by) {
  Tensor moved = *leaves.at(id);
  moved.values[e] += by;
  leaves[id] = std::make_shared<const Tensor>(std::move(moved));
  return exact(graph, leaves, {Phase::reduce}).at("loss/out")->values[0];
}

class Gradients : public testing::TestWithParam<const char*> {};

// Central differences: error h^2 f'''/6 plus u |f| / h. With h = 2^-9, |f| about 6 and u = 2^-53
// the second is 1e-12; the third derivative of this loss along one weight stays below 100, so 1e-4
// holds.
TEST_P(Gradients, AgreeWithCentralDifferences) {
  const Training run = small_run(GetParam(), "fp32");
  const Values leaves = leaves_of_run(run);
  const Graph graph = plan(run.config, run.recipe, run.layout);
  const ValuesOf<double> step = exact(graph, leaves, {Phase::reduce});
  const float h = 0x1p-9F;
  for (const Parameter& p : parameters(run.config)) {
    const std::string id = p.name + "/param@previous";
    const Matrix<double>& gradient = *step.at(p.name + "/main_grad");
    // The largest entry: the one whose error would matter most; and the first.
    std::size_t largest = 0;
    for (std::size_t e = 0; e < gradient.size(); ++e) {
      if (std::fabs(gradient.values[e]) > std::fabs(gradient.values[largest])) largest = e;
    }
    for (const std::size_t e : {largest, std::size_t(0)}) {
      const float base = leaves.at(id)->values[e];
      const double up = static_cast<double>(base + h), down = static_cast<double>(base - h);
      const double slope =
          (loss_with(graph, leaves, id, e, h) - loss_with(graph, leaves, id, e, -h)) / (up - down);
      EXPECT_NEAR(gradient.values[e], slope, 1e-4) << p.name << " element " << e;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Of, Gradients, testing::Values("gpt", "llama"));

}  // namespace
}  // namespace plumb
