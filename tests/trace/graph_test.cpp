// Do ids pool into kinds, and does a split touch exactly what lies downstream?
#include "trace/graph.hpp"
#include "tests/support/rooms.hpp"

#include <gtest/gtest.h>

namespace plumb::graph_test {
namespace {

TEST(KindOf, ForgetsMicroBatchAndLayer) {
  EXPECT_EQ(kind_of("m3/layers.12.attn.qkv/out"), "layers.attn.qkv/out");
  EXPECT_EQ(kind_of("layers.0.norm1.weight/main_grad"), "layers.norm1.weight/main_grad");
  EXPECT_EQ(kind_of("mlp/out"), "mlp/out");
}

Graph chain(int parts) {
  Graph graph;
  graph.nodes.push_back({"cast", {"a"}, {"b"}, {}, {}, Phase::forward});
  graph.nodes.push_back({"gemm", {"b", "w"}, {"c"}, {}, {parts, bf16, bf16}, Phase::forward});
  graph.nodes.push_back({"cast", {"c"}, {"d"}, {}, {}, Phase::forward});
  graph.nodes.push_back({"cast", {"b"}, {"e"}, {}, {}, Phase::forward});
  return graph;
}

TEST(Touched, IsTheSplitNodeAndAllBehindIt) {
  EXPECT_EQ(touched(chain(1), chain(2)), (std::set<std::string>{"c", "d"}));
  EXPECT_TRUE(touched(chain(2), chain(2)).empty());
}

TEST(Touched, TwoTermsInTwoPartsAreOneChain) {
  const auto sum = [](std::vector<std::string> inputs, int parts, const Format& wire) {
    return Graph{{{"sum", std::move(inputs), {"s"}, {}, {parts, wire, fp32}, Phase::reduce}}};
  };
  EXPECT_TRUE(touched(sum({"a", "b"}, 1, fp32), sum({"a", "b"}, 2, fp32)).empty());
  EXPECT_FALSE(touched(sum({"a", "b"}, 1, fp32), sum({"a", "b"}, 2, bf16)).empty());
  // A ring may begin anywhere: of three terms, the order shows.
  EXPECT_FALSE(touched(sum({"a", "b", "c"}, 1, fp32), sum({"a", "b", "c"}, 3, fp32)).empty());
}

TEST(Touched, RefusesPromisesOfTwoModels) {
  Graph other = chain(1);
  other.nodes[3].op = "gelu";
  EXPECT_THROW(touched(chain(1), other), Failure);
  other.nodes.pop_back();
  EXPECT_THROW(touched(chain(1), other), Failure);
}

TEST(Leaves, AreWhatNoNodeMakes) {
  EXPECT_EQ(leaves_of(chain(1)), (std::vector<std::string>{"a", "w"}));
}

}  // namespace
}  // namespace plumb::graph_test
