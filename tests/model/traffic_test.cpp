// Does a rank send what shapes alone say? Counted while small runs go on.
#include "model/estimate/traffic.hpp"

#include <gtest/gtest.h>

#include <cctype>
#include <map>
#include <mutex>

#include "tests/support/rooms.hpp"
#include "tests/support/runs.hpp"

namespace plumb::traffic_test {
namespace {

// By axis and how: calls and numbers of one rank; a call of one number does not count.
using Counts = std::map<std::string, std::pair<double, double>>;

class Counting final : public Communicator {
 public:
  Counting(Communicator& group, std::string axis, Counts& counts)
      : group_(group), axis_(std::move(axis)), counts_(counts) {}
  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  void sum(std::span<float> x, const Format& wire) override {
    count("sum", x.size());
    group_.sum(x, wire);
  }
  void sum(double& x) override { group_.sum(x); }
  void max(std::span<float> x) override {
    count("max", x.size());
    group_.max(x);
  }
  Tensor gather_rows(const Tensor& x) override {
    count("gather", x.size());
    return group_.gather_rows(x);
  }
  std::vector<Tensor> exchange(const std::vector<Tensor>& to) override {
    std::size_t all = 0;
    for (const Tensor& x : to) all += x.size();
    count("exchange", all);
    return group_.exchange(to);
  }
  void send(int to, int tag, const Tensor& x) override {
    count("send", x.size());
    group_.send(to, tag, x);
  }
  Tensor receive(int from, int tag) override { return group_.receive(from, tag); }
  bool has_arrived(int from, int tag) override { return group_.has_arrived(from, tag); }

 private:
  void count(const char* how, std::size_t numbers) {
    if (size() == 1 || numbers <= 1) return;
    auto& [calls, all] = counts_[axis_ + " " + how];
    ++calls;
    all += static_cast<double>(numbers);
  }
  Communicator& group_;
  std::string axis_;
  Counts& counts_;
};

// Threads whose groups count.
class CountingWorld final : public World {
 public:
  std::vector<Counts> counts;
  void run(int size, std::span<const Division> divisions, const Body& body) override {
    constexpr const char* axes[] = {"tp",      "cp",
                                    "dp",      "pp",
                                    "model",   "tokens",
                                    "ep",      "expert_copies",
                                    "sharers", "expert_sharers"};
    counts.resize(static_cast<std::size_t>(size));
    threads().run(size, divisions, [&](int rank, Groups& groups) {
      Groups counting;
      for (std::size_t g = 0; g < groups.size(); ++g) {
        counting.push_back(std::make_unique<Counting>(*groups[g], axes[g],
                                                      counts[static_cast<std::size_t>(rank)]));
      }
      body(rank, counting);
    });
  }
  int rank() const override { return 0; }
  bool has_all() const override { return true; }
  std::vector<std::string> gather(const std::string&) override { return {}; }
};

Counts foreseen_by(const Training& run, int rank) {
  Counts foreseen;
  for (const Travel& t : traffic(run.config, run.recipe, run.layout, rank)) {
    auto& [calls, numbers] = foreseen[t.axis + " " + t.how];
    calls += t.calls;
    numbers += t.elements;
  }
  return foreseen;
}

class Traffic : public testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(Traffic, IsWhatRunsSend) {
  const auto [family, recipe] = GetParam();
  for (const char* layout :
       {"tp2", "dp2,tp2,sp", "pp2", "cp2", "cp2:ulysses,recompute:selective", "cp2:ring",
        "cp2:ring,tp2,recompute:selective", "dp2,tp2,zero2", "dp2,zero3", "dp2,pp2,zero3,recompute",
        "dp4,zero3:2", "dp2,cp2,tp2,pp2,sp,zero1", "dp4,zero3,padded"}) {
    const Training run = small_run(family, recipe, layout);
    CountingWorld world;
    train_step(run, leaves_of_run(run), Joints(), find_backend("reference"), world);
    for (int rank = 0; rank < run.layout.world_size(); ++rank) {
      Counts foreseen = foreseen_by(run, rank);
      const Counts& seen = world.counts[static_cast<std::size_t>(rank)];
      for (const auto& [what, counted] : seen) {
        EXPECT_EQ(foreseen[what].first, counted.first) << layout << " rank " << rank << " " << what;
        EXPECT_EQ(foreseen[what].second, counted.second)
            << layout << " rank " << rank << " " << what << " numbers";
      }
      EXPECT_EQ(foreseen.size(), seen.size()) << layout << " rank " << rank;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Traffic,
                         testing::Combine(testing::Values("gpt", "llama+qk_norm+sinks",
                                                          "gpt-moe+balance_bias+capacity=1.0",
                                                          "llama+other_head+rope_stretch=4",
                                                          "gpt+latent=12+shared_key=4",
                                                          "llama+latent=12"),
                                          testing::Values("bf16", "fp8-current")),
                         [](const auto& of) {
                           std::string name =
                               std::get<0>(of.param) + std::string("_") + std::get<1>(of.param);
                           for (char& x : name) x = std::isalnum(x) != 0 ? x : '_';
                           return name;
                         });

// Tensors that no product takes a copy of are not cast, so that no scale of theirs is agreed on.
TEST(TrafficOfSomeProducts, IsRefused) {
  Training run = small_run("gpt", "fp8-current", "dp2,tp2");
  EXPECT_NO_THROW(foreseen_by(run, 0));
  for (bool OperandCasts::*product :
       {&OperandCasts::fprop, &OperandCasts::dgrad, &OperandCasts::wgrad}) {
    run.recipe = find_recipe("fp8-current");
    (*run.recipe.operands).*product = false;
    EXPECT_THROW(foreseen_by(run, 0), Failure);
  }
}

// As many numbers travel as without, and those of weights in a byte each.
TEST(TrafficOfCasts, IsAByteForEachWeight) {
  Training run = small_run("gpt", "fp8-current", "dp2,tp2,zero3");
  const auto bytes = [&] {
    double all = 0;
    for (const Travel& t : traffic(run.config, run.recipe, run.layout, 0)) {
      EXPECT_GT(t.calls, 0) << t.what;
      if (t.axis == "dp" && t.how == "gather") all += t.elements * (t.format == e4m3fn ? 1 : 2);
    }
    return all;
  };
  const double of_parameters = bytes();
  const Counts parameters = foreseen_by(run, 0);
  run.recipe.operands->gathers_casts = true;
  const Counts casts = foreseen_by(run, 0);
  CountingWorld world;
  train_step(run, leaves_of_run(run), Joints(), find_backend("reference"), world);
  EXPECT_EQ(casts, world.counts[0]);
  EXPECT_EQ(casts, parameters);
  double weights = 0;  // of this rank's share
  for (const Parameter& p : multiplied(run.config)) weights += p.rows * p.cols / 4.0;
  EXPECT_EQ(of_parameters - bytes(), weights);
}

// How many copies a rank gets is a matter of the choice; all ranks together send as many as even
// choices would make them.
TEST(TrafficOfExperts, IsWhatExpertParallelRanksSendTogether) {
  for (const char* layout : {"dp2,ep2", "dp4,ep2,tp2,sp,recompute", "dp2,cp2:ring,ep2,tp2"}) {
    const Training run = small_run("gpt-moe", "bf16", layout);
    CountingWorld world;
    train_step(run, leaves_of_run(run), Joints(), find_backend("reference"), world);
    Counts foreseen, seen;
    for (int rank = 0; rank < run.layout.world_size(); ++rank) {
      for (const auto& [what, counted] : foreseen_by(run, rank)) {
        foreseen[what].first += counted.first;
        foreseen[what].second += counted.second;
      }
      for (const auto& [what, counted] : world.counts[static_cast<std::size_t>(rank)]) {
        seen[what].first += counted.first;
        seen[what].second += counted.second;
      }
    }
    EXPECT_EQ(foreseen, seen) << layout;
  }
}

}  // namespace
}  // namespace plumb::traffic_test
