// Do the promised gradients agree with central differences of the promised loss, in FP64?
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/rooms.hpp"
#include "tests/support/runs.hpp"
#include "trace/execute.hpp"

namespace plumb::gradient_test {
namespace {

using Wide = ValuesOf<double>;

Wide in_fp64(const Graph& graph, const Wide& leaves) {
  const auto make = [](const Node&) { return std::make_unique<ExactRoundings>(); };
  return execute<double>(graph, leaves, make, {Phase::reduce});
}

// Of the step: the tokens' loss, that of an extra head, and those of the routers.
double loss_of(const Wide& step) {
  double sum = 0;
  for (const auto& [name, x] : step) {
    const bool of_routers = name.starts_with("layers.") && name.ends_with("_loss");
    if (of_routers || name == "loss/out" || name == "mtp.loss/out") sum += x->values[0];
  }
  return sum;
}

// Choices are constants to the gradient: what `top_k` makes of the leaves becomes a leaf.
Graph with_choices_made(Graph graph, Wide& leaves) {
  const Wide made = in_fp64(graph, leaves);
  std::erase_if(graph.nodes, [&](const Node& node) {
    if (node.op == "top_k") leaves[node.outputs[0]] = made.at(node.outputs[0]);
    return node.op == "top_k";
  });
  return graph;
}

class Gradients : public testing::TestWithParam<const char*> {};

// D(h) = f' + h^2 f'''/6 + O(h^4): D(h/2) is off by a third of D(h) - D(h/2); we allow all of it.
// The loss, about 6, loses fewer than 2^10 roundings of 2^-53 of itself: at h = 2^-12 that is less
// than 2^-27 in D.
TEST_P(Gradients, AgreeWithCentralDifferences) {
  const Training run = small_run(GetParam(), "fp32");
  Wide leaves;
  for (const auto& [id, x] : leaves_of_run(run)) {
    leaves[id] = std::make_shared<const Matrix<double>>(converted<double>(*x));
  }
  const Graph graph = with_choices_made(plan(run.config, run.recipe, run.layout), leaves);
  const Wide step = in_fp64(graph, leaves);
  for (const Parameter& p : parameters(run.config)) {
    const std::string id = p.name + "/param@previous";
    const Matrix<double>& gradient = *step.at(p.name + "/main_grad");
    const auto slope = [&](std::size_t e, double h) {
      const auto moved = [&](double by) {
        Wide others = leaves;
        Matrix<double> x = *leaves.at(id);
        x.values[e] += by;
        others[id] = std::make_shared<const Matrix<double>>(std::move(x));
        return loss_of(in_fp64(graph, others));
      };
      return (moved(h) - moved(-h)) / (2 * h);
    };
    // The largest entry: the one whose error would matter most.
    const auto larger = [](double a, double b) { return std::fabs(a) < std::fabs(b); };
    const auto largest = std::ranges::max_element(gradient.values, larger);
    const auto e = static_cast<std::size_t>(largest - gradient.values.begin());
    const double one = slope(e, 0x1p-11), half = slope(e, 0x1p-12);
    EXPECT_NEAR(*largest, half, std::fabs(one - half) + 0x1p-27) << p.name << " element " << e;
    EXPECT_LT(std::fabs(one - half), 0x1p-10 * std::fabs(half) + 0x1p-27) << p.name;
  }
}
INSTANTIATE_TEST_SUITE_P(Of, Gradients,
                         testing::Values("gpt", "llama", "gpt-moe", "llama-moe",
                                         "gpt+sinks+qk_norm+documents=3",
                                         "llama+sinks+qk_norm+documents=3",
                                         "gpt+latent=12+shared_key=4", "llama+latent=12",
                                         "llama+latent=12+shared_key=4+qk_norm+documents=3",
                                         "llama+dropout=0.2+label_smoothing=0.1",
                                         "gpt-moe+capacity=0.7", "gpt+mtp+documents=3"));

}  // namespace
}  // namespace plumb::gradient_test
