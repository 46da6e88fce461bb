// Do twins acquit healthy runs, and see what is small against the tensor and large against them?
#include "trace/twins.hpp"

#include <gtest/gtest.h>

#include <set>

#include "kernels/backend.hpp"
#include "model/run/reference.hpp"
#include "number/philox.hpp"
#include "number/rounding.hpp"
#include "tests/support/rooms.hpp"
#include "tests/support/runs.hpp"
#include "trace/difference.hpp"
#include "trace/execute.hpp"

namespace plumb::twins_test {
namespace {

const auto all = [](const std::string&) { return true; };

class Twins : public testing::Test {
 protected:
  explicit Twins(std::uint64_t seed = 1) {
    const Training run = small_run("gpt", "bf16", "tp2", seed);
    const Values leaves = leaves_of_run(run);
    one_ = plan(run.config, run.recipe, {});
    const Trace trace = train_step(run, leaves, Joints(), find_backend("reference"));
    many_ = *trace.graph;
    Training single = run;
    single.layout = {};
    reference_ = merge(reference_trace(single, reference(one_, leaves)));
    candidate_ = merge(trace);
  }

  TwinsJudgement judged(const std::function<bool(const std::string&)>& wanted) const {
    const Drawn drawn = draw_twins(one_, reference_, many_, candidate_, wanted, options_);
    return conclude(TwinTests(drawn), candidate_, options_);
  }

  // The finding on `id` after its values were changed, if there is one.
  const Finding* finding_after(const std::string& id, const std::function<void(Tensor&)>& how) {
    Tensor changed = *candidate_.values.at(id);
    how(changed);
    candidate_.values[id] = std::make_shared<const Tensor>(std::move(changed));
    seen_ = judged(all);
    for (const Finding& f : seen_.findings) {
      if (f.id == id) return &f;
    }
    return nullptr;
  }

  Graph one_, many_;
  Merged reference_, candidate_;
  TwinOptions options_;
  TwinsJudgement seen_;
};

TEST_F(Twins, AcquitAHealthyRun) {
  seen_ = judged(all);
  EXPECT_TRUE(seen_.findings.empty());
  EXPECT_TRUE(seen_.could_fail);
  EXPECT_GT(seen_.tests, 500U);
}

// However few they are.
TEST_F(Twins, AreRefusedWhereTheyScatterFarMoreThanStored) {
  std::map<std::string, Learnt::OfTensor> tight;
  for (const Node& node : many_.nodes) {
    for (const std::string& id : node.outputs) tight[without_micro_batch(id)].fill({1e-12, 1});
  }
  StoredSpreads stored;
  stored.learnt = Learnt(tight);
  options_.spreads = &stored;
  for (const int twins : {2, 4}) {
    options_.twins = twins;
    EXPECT_THROW(judged(all), Failure);
  }
}

TEST_F(Twins, SeeAFactorOfOnePercent) {
  const Finding* f = finding_after("m0/layers.0.attn.proj/out", [](Tensor& x) {
    for (float& v : x.values) v *= 1.01F;
  });
  ASSERT_NE(f, nullptr);
  EXPECT_GT(f->ratio, 1);
}

TEST_F(Twins, SeeOneWrongRow) {
  const Finding* f = finding_after("m1/layers.1.mlp.add/out", [](Tensor& x) {
    for (std::size_t j = 0; j < x.cols; ++j) x(3, j) = x(4, j);
  });
  ASSERT_NE(f, nullptr);
}

TEST_F(Twins, SeeOneBitWhereNothingIsSplitUpstream) {
  const Finding* f = finding_after(
      "m0/layers.0.norm1/out", [](Tensor& x) { x.values[0] = std::nextafter(x.values[0], 1e9F); });
  ASSERT_NE(f, nullptr);
  EXPECT_TRUE(std::isinf(f->ratio));
}

TEST_F(Twins, LookOnlyWhereTheyAreAskedTo) {
  const auto only = [](const std::string& id) { return id == "m0/head/out"; };
  seen_ = judged(only);
  EXPECT_EQ(seen_.worst.size(), 1U);
}

// Column sums over four contexts, of 64 tokens: products of BF16 numbers, of which FP32 loses
// little.
struct SumsOverTokens {
  Graph one, many;
  Values base;

  explicit SumsOverTokens(std::size_t columns) {
    Node node{"column_sum", {"x"}, {"y"}, {}, {1, fp32, fp32}, Phase::backward};
    one.nodes = {node};
    node.how = {4, fp32, fp32, {4, 32}};
    many.nodes = {node};
    Tensor x(64, columns);
    for (std::size_t e = 0; e < x.size(); ++e) {
      const double product = round_to(uniform(key_of(1, "a"), e) - 0.5, bf16) *
                             round_to(uniform(key_of(1, "b"), e) - 0.5, bf16);
      x.values[e] = static_cast<float>(product);
    }
    base = reference(one, {{"x", std::make_shared<const Tensor>(std::move(x))}});
  }
  double energy(const Tensor& y) const {
    return difference(y.values, base.at("y")->values).squares;
  }
};

// Every order of the terms is as good a draw as the candidate's, so that twins lie as far from the
// reference as it does. Some 4300 of the 16384 sums differ, by one to a few spacings: their squares
// scatter by 1.5 times their mean, two energies' ratio by 1.5 sqrt(2 / 4300) = 0.03, and 0.15 is
// five of those. A transfer between the candidate's own parts would come on top: 1.25 to 1.28.
TEST(TwinsOfSumsOverTokens, LieAsFarFromTheReferenceAsTheCandidate) {
  const SumsOverTokens sums(16384);
  const double candidate = sums.energy(*reference(sums.many, {{"x", sums.base.at("x")}}).at("y"));
  std::set<double> different;
  std::vector<Values> twins(4, sums.base);
  draw(sums.many.nodes[0], twins, 1);
  for (const Values& twin : twins) {
    const double drawn = sums.energy(*twin.at("y"));
    EXPECT_NEAR(drawn / candidate, 1, 0.15);
    different.insert(drawn);
  }
  EXPECT_EQ(different.size(), 4U);
}

// Does the candidate stand among its twins as one of them? With cuts about its own it stood in their
// middle, nearer to each than they to each other, and its statistics were rarely the largest. The mean
// difference lies within four of its standard errors.
TEST(TwinsOfSumsOverTokens, LieAsFarFromEachOtherAsFromTheCandidate) {
  const SumsOverTokens sums(256);
  const Tensor candidate = *reference(sums.many, {{"x", sums.base.at("x")}}).at("y");
  std::vector<double> farther;  // from each other, in squares
  for (std::uint64_t seed = 1; seed <= 600; ++seed) {
    std::vector<Values> twins(2, sums.base);
    draw(sums.many.nodes[0], twins, seed);
    const Tensor &one = *twins[0].at("y"), &other = *twins[1].at("y");
    farther.push_back(difference(one.values, other.values).squares -
                      difference(one.values, candidate.values).squares);
  }
  double sum = 0, squares = 0;
  for (const double x : farther) {
    sum += x;
    squares += x * x;
  }
  EXPECT_LT(std::fabs(sum), 4 * std::sqrt(squares)) << sum / std::sqrt(squares);
}

}  // namespace
}  // namespace plumb::twins_test
