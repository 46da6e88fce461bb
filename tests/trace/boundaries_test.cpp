// Do twins share what nothing split lies upstream of, and do all meet where few roundings decide?
#include "trace/boundaries.hpp"

#include <gtest/gtest.h>

#include "kernels/backend.hpp"
#include "model/run/reference.hpp"
#include "number/blocks.hpp"
#include "number/philox.hpp"
#include "number/rounding.hpp"
#include "tests/support/rooms.hpp"
#include "tests/support/runs.hpp"
#include "trace/check.hpp"

namespace plumb::boundaries_test {
namespace {

const Extent to_gradients{Phase::reduce};

TEST(MeetingOfTwins, ShareTheReferenceUpstreamOfTheSplitAndDifferBehindIt) {
  const Training run = small_run("llama", "bf16", "tp2");
  const Values leaves = leaves_of_run(run);
  const Graph one = plan(run.config, run.recipe, {}),
              many = plan(run.config, run.recipe, run.layout);
  const Values base = reference(one, leaves, to_gradients);
  const Meeting first = meet(one, base, many, nullptr, 1, 2, to_gradients);
  const Meeting again = meet(one, base, many, nullptr, 1, 1, to_gradients);
  const auto differs = touched(one, many);
  EXPECT_FALSE(differs.empty());
  EXPECT_EQ(first.reference, base);
  for (const auto& [id, tensor] : base) {
    EXPECT_EQ(first.twins[0].at(id)->values, again.twins[0].at(id)->values) << id;
    if (differs.contains(id)) continue;
    EXPECT_EQ(first.twins[0].at(id), tensor) << id;  // the very same tensor
  }
  const std::string logits = "m0/head/out";
  EXPECT_NE(first.twins[0].at(logits)->values, base.at(logits)->values);
  EXPECT_NE(first.twins[0].at(logits)->values, first.twins[1].at(logits)->values);
}

// What is measured as it is made is what stays.
TEST(MeetingOfTwins, ShowEachNodeOnceAndForGood) {
  const Training run = small_run("gpt", "bf16", "tp2");
  const Values leaves = leaves_of_run(run);
  const Graph one = plan(run.config, run.recipe, {}),
              many = plan(run.config, run.recipe, run.layout);
  const Values base = reference(one, leaves, to_gradients), candidate = reference(many, leaves);
  const auto differs = touched(one, many);
  Values shown, of_a_twin;
  const auto see = [&](const Node& node, bool split, const Meeting& made) {
    EXPECT_EQ(split, differs.contains(node.outputs.front())) << node.outputs.front();
    for (const std::string& id : node.outputs) {
      EXPECT_TRUE(shown.emplace(id, made.reference.at(id)).second) << id;
      of_a_twin.emplace(id, made.twins[1].at(id));
    }
  };
  const Meeting met = meet(one, base, many, &candidate, 1, 2, to_gradients, see);
  std::size_t nodes = 0;
  for (const Node& node : many.nodes) {
    if (node.phase > to_gradients.last) continue;
    ++nodes;
    for (const std::string& id : node.outputs) {
      EXPECT_EQ(shown.at(id), met.reference.at(id)) << id;
      EXPECT_EQ(of_a_twin.at(id), met.twins[1].at(id)) << id;
    }
  }
  EXPECT_GE(shown.size(), nodes);
}

// Of tensors that no later node reads nothing stays, and no number depends on that.
TEST(MeetingOfTwins, LetGoOfTensorsBehindTheirLastReader) {
  const Training run = small_run("llama", "bf16", "tp2");
  const Values leaves = leaves_of_run(run);
  const Graph one = plan(run.config, run.recipe, {}),
              many = plan(run.config, run.recipe, run.layout);
  const Values base = reference(one, leaves, to_gradients), candidate = reference(many, leaves);
  const Meeting kept = meet(one, base, many, &candidate, 1, 2, to_gradients);
  std::size_t most = 0;
  const auto see = [&](const Node& node, bool, const Meeting& made) {
    for (const std::string& id : node.outputs)
      EXPECT_EQ(made.twins[1].at(id)->values, kept.twins[1].at(id)->values) << id;
    most = std::max(most, made.twins[1].size());
  };
  const Meeting met = meet(one, base, many, &candidate, 1, 2, to_gradients, see, false);
  EXPECT_EQ(met.reference.size(), kept.reference.size());
  EXPECT_LT(most, kept.twins[1].size());
  for (const Node& node : many.nodes) {
    if (node.phase > to_gradients.last) continue;
    for (const std::string& id : node.outputs) EXPECT_FALSE(met.twins[0].contains(id)) << id;
  }
}

TEST(MeetingOfTwins, WithoutASplitAreTheReference) {
  const Training run = small_run("gpt", "bf16");
  const Graph graph = plan(run.config, run.recipe, {});
  const Values base = reference(graph, leaves_of_run(run), to_gradients);
  EXPECT_EQ(meet(graph, base, graph, nullptr, 1, 1, to_gradients).twins[0], base);
}

// y = a b over two ranks, parts in `wire`, results in `output`; z = y + y.
struct Product {
  Graph one, many;
  Values base, candidate;

  Product(const Format& wire, const Format& output, std::size_t rows = 512) {
    one.nodes = {
        {"gemm", {"a", "b"}, {"y"}, {{"transpose_a", 0}, {"transpose_b", 0}}, {1, fp32, output}},
        {"add", {"y", "y"}, {"z"}, {}, {1, fp32, output}}};
    many = one;
    many.nodes[0].how = {2, wire, output};
    const Values leaves{{"a", random("a", rows, 256)}, {"b", random("b", 256, 64)}};
    base = reference(one, leaves);
    candidate = reference(many, leaves);
  }
  static std::shared_ptr<const Tensor> random(const char* name, std::size_t rows,
                                              std::size_t cols) {
    Tensor x(rows, cols);
    for (std::size_t e = 0; e < x.size(); ++e) {
      x.values[e] = static_cast<float>(round_to(uniform(key_of(1, name), e) - 0.5, fp16));
    }
    return std::make_shared<const Tensor>(std::move(x));
  }
  Meeting met() const { return meet(one, base, many, &candidate, 1, 4); }
  void change(const std::function<void(Tensor&)>& how) {
    Tensor y = *candidate.at("y");
    how(y);
    candidate["y"] = std::make_shared<const Tensor>(std::move(y));
  }
};

TEST(Boundaries, AreFollowedWhereFewNumbersFallOnTheOtherSide) {
  const Product p(fp32, fp16);
  ASSERT_NE(p.candidate.at("y")->values, p.base.at("y")->values);
  const Meeting met = p.met();
  EXPECT_EQ(met.followed, std::set<std::string>{"y"});
  EXPECT_GT(met.flips, 0U);
  EXPECT_LT(met.flips, 40U);
  EXPECT_EQ(*met.reference.at("y"), *p.candidate.at("y"));
  EXPECT_EQ(*met.reference.at("z"), *p.candidate.at("z")) << "made again";
  for (const Values& twin : met.twins) {
    EXPECT_EQ(*twin.at("y"), *p.candidate.at("y"));
    EXPECT_EQ(*twin.at("z"), *p.candidate.at("z"));
  }
}

// One number off by more than any rounding; one in thirteen off by an ulp, where one in sixteen is
// few.
TEST(Boundaries, AreNotFollowedBeyondAnUlpOrInMoreThanFewNumbers) {
  Product far(fp32, fp16), many(fp32, fp16);
  far.change([](Tensor& y) { y.values[7] += 0.01F; });
  many.change([](Tensor& y) {
    for (std::size_t e = 0; e < y.size(); e += 13) {
      y.values[e] = static_cast<float>(y.values[e] + ulp(y.values[e], fp16));
    }
  });
  for (const Product& p : {far, many}) {
    const Meeting met = p.met();
    EXPECT_FALSE(met.followed.contains("y"));
    EXPECT_EQ(*met.reference.at("y"), *p.base.at("y"));
  }
}

// Where twins differ in many numbers, or in what FP32 itself loses, there is a size to compare.
TEST(Boundaries, AreNotFollowedWhereTwinsShowManyOrNoneIs) {
  for (const Product& p : {Product(fp16, fp16), Product(fp32, fp32)}) {
    const Meeting met = p.met();
    EXPECT_TRUE(met.followed.empty());
    for (const Values& twin : met.twins) EXPECT_NE(*twin.at("y"), *p.base.at("y"));
  }
}

// The candidate's largest number is 448, E4M3's, the reference's 470: with the candidate's scale it
// lies beyond. Cut to 448 it would be one-sided: candidates are never cut.
TEST(Boundaries, ScalesAreFollowedAndNothingIsCutThere) {
  Product p(fp16, fp16, 16);
  const auto with_largest = [](Values& values, float largest) {
    Tensor y = *values.at("y");
    y.values[0] = largest;
    values["y"] = std::make_shared<const Tensor>(std::move(y));
  };
  with_largest(p.base, 470);
  with_largest(p.candidate, 448);
  for (Graph* graph : {&p.one, &p.many}) {
    graph->nodes[1] = {"amax_scale", {"y"}, {"s"}, {{"largest", 448}}, {1, fp32, fp32}};
    graph->nodes.push_back({"quantize", {"y", "s"}, {"q"}, {}, {1, fp32, e4m3fn}});
    Values& values = graph == &p.one ? p.base : p.candidate;
    make(graph->nodes[1], values);
    make(graph->nodes[2], values);
  }
  ASSERT_EQ(p.candidate.at("s")->values[0], 2 * p.base.at("s")->values[0]);
  p.candidate.erase("q");  // or else it would be followed, too
  const Meeting met = p.met();
  EXPECT_EQ(met.reference.at("s")->values[0], p.candidate.at("s")->values[0]);
  EXPECT_EQ(met.reference.at("q")->values[0], 480);
  for (const Values& twin : met.twins) {
    EXPECT_EQ(twin.at("s")->values[0], p.candidate.at("s")->values[0]);
  }
}

// Twins know how far the candidate's numbers lie off the reference's, and to which side: of blocks whose
// largest numbers made the scales that are followed, too.
TEST(Boundaries, OfBlocksCutNoLargestNumber) {
  Product p(e4m3fn, fp32);
  const Attributes blocks{{"rows", 1}, {"cols", 16}, {"sliced_rows", 0}};
  for (Graph* graph : {&p.one, &p.many}) {
    Attributes scales = blocks;
    scales["rule"] = static_cast<double>(ScaleRule::exact);
    graph->nodes[1] = {"block_scales", {"y"}, {"s"}, scales, {1, fp32, e4m3fn}};
    graph->nodes.push_back({"quantize_blocks", {"y", "s"}, {"q"}, blocks, {1, fp32, e4m3fn}});
    Values& values = graph == &p.one ? p.base : p.candidate;
    make(graph->nodes[1], values);
    make(graph->nodes[2], values);
  }
  constexpr int twins = 32;
  const Meeting met = meet(p.one, p.base, p.many, &p.candidate, 1, twins);
  ASSERT_EQ(*met.reference.at("s"), *p.candidate.at("s"));
  const Tensor& r = *met.reference.at("q");
  const auto slope = [&](const Tensor& x) {
    double product = 0, square = 0;
    for (std::size_t e = 0; e < r.size(); ++e) {
      product += (static_cast<double>(x.values[e]) - r.values[e]) * r.values[e];
      square += static_cast<double>(r.values[e]) * r.values[e];
    }
    return product / square;
  };
  double mean = 0, square = 0;
  for (const Values& twin : met.twins) {
    mean += slope(*twin.at("q")) / twins;
    square += std::pow(slope(*twin.at("q")), 2) / twins;
  }
  EXPECT_NEAR(slope(*p.candidate.at("q")), mean, 3 * std::sqrt(square - mean * mean));
}

// Of a number that is followed replay says whether it comes from the candidate's own inputs,
// whatever the rules.
TEST(Boundaries, ThatNoRoundingExplainsAreFoundByReplay) {
  Training run = small_run("gpt", "fp16", "cp2");
  const Values leaves = leaves_of_run(run);
  const Trace candidate = train_step(run, leaves, Joints(), find_backend("reference"));
  run.layout = {};
  const Trace one = reference_trace(run, reference(plan(run.config, run.recipe, {}), leaves));
  Merged merged = merge(candidate);
  CheckOptions options;
  options.rules = {"twins"};
  EXPECT_EQ(check(one, merge(one), candidate, merged, options).exit_code(), 0);
  const std::string id = "m1/layers.0.mlp.fc2/grad_in";
  Tensor wrong = *merged.values.at(id);
  wrong(3, 4) = static_cast<float>(wrong(3, 4) + ulp(wrong(3, 4), fp16));
  merged.values[id] = std::make_shared<const Tensor>(std::move(wrong));
  const Verdict v = check(one, merge(one), candidate, merged, options);
  EXPECT_EQ(v.exit_code(), 1);
  EXPECT_EQ(v.blamed, id);
  EXPECT_EQ(v.blamed_by, "replay");
  EXPECT_GE(v.flips, 1U);
}

}  // namespace
}  // namespace plumb::boundaries_test
