// Is a step that was left out told from one that was not, in whatever a trace says of it?
#include "trace/structure.hpp"
#include "tests/support/rooms.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

namespace plumb::structure_test {
namespace {

bool left_out_by(Tensor decision) {
  Graph graph;
  graph.nodes.push_back({"linear", {"x"}, {"y"}, {}, {}});
  graph.nodes.push_back({"unscale", {"g"}, {"h", "found_inf"}, {}, {}});
  const auto of = [](Tensor x) { return std::make_shared<const Tensor>(std::move(x)); };
  return left_out(graph, {{"h", of(Tensor(1, 1, 3))}, {"found_inf", of(std::move(decision))}});
}

TEST(LeftOut, IsTheStepWhoseDecisionSaysSo) {
  EXPECT_TRUE(left_out_by(Tensor(1, 1, 1)));
  EXPECT_FALSE(left_out_by(Tensor(1, 1, 0)));
}

TEST(LeftOut, IsNoStepWithoutADecision) {
  EXPECT_FALSE(left_out(Graph(), {}));
  Graph graph;
  graph.nodes.push_back({"unscale", {"g"}, {"found_inf"}, {}, {}});
  EXPECT_FALSE(left_out(graph, {}));
}

// A damaged trace excuses nothing. (Sanitizers see a read beyond its end.)
TEST(LeftOut, IsNoStepWhoseDecisionHasNoOrManyNumbers) {
  EXPECT_FALSE(left_out_by(Tensor(0, 1)));
  EXPECT_FALSE(left_out_by(Tensor(2, 1, 1)));
}

}  // namespace
}  // namespace plumb::structure_test
