// Does a replay that ranks have done in parts find what a replay of the whole finds, whatever they
// have done of it?
#include "trace/rank_replay.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "kernels/backend.hpp"
#include "number/outcome.hpp"
#include "tests/support/rooms.hpp"
#include "tests/support/runs.hpp"

namespace plumb::rank_replay_test {
namespace {

constexpr double any_time = std::numeric_limits<double>::infinity();

Trace run_in(const char* family, const char* layout, const char* backend = "reference") {
  const Training run = small_run(family, "bf16", layout);
  return train_step(run, leaves_of_run(run), Joints(), find_backend(backend));
}

Tensor& values_of(Trace& trace, std::size_t rank, const std::string& id) {
  return trace.ranks.at(rank).shards.at(id).values;
}

// The replay of which every rank does `pieces` operations.
Completed in_parts(const Trace& trace, std::size_t pieces) {
  std::vector<Inside> of_ranks;
  for (std::size_t r = 0; r < trace.ranks.size(); ++r) {
    RankReplay rank;
    rank.begin(trace, r);
    for (std::size_t i = 0; i < pieces && rank.one(any_time); ++i) {
    }
    of_ranks.push_back(inside_from(text_of(rank.inside())));
  }
  return complete(*trace.graph, merge(trace), of_ranks);
}

// Returns what a replay of the whole finds.
Replayed expect_alike(const Trace& trace, const std::string& what) {
  const Merged merged = merge(trace);
  const Replayed whole = replay(*trace.graph, merged, [](const std::string&) { return true; });
  for (const std::size_t pieces : {std::size_t(0), std::size_t(40), std::size_t(100'000)}) {
    const Completed parts = in_parts(trace, pieces);
    EXPECT_EQ(parts.taken + parts.rest, trace.graph->nodes.size());
    EXPECT_EQ(parts.replayed.ratios, whole.ratios) << what << ", " << pieces;
    EXPECT_EQ(parts.replayed.not_judged, whole.not_judged) << what;
    EXPECT_EQ(parts.replayed.findings.size(), whole.findings.size()) << what << ", " << pieces;
    for (std::size_t i = 0; i < whole.findings.size(); ++i) {
      EXPECT_EQ(parts.replayed.findings.at(i).id, whole.findings[i].id) << what;
      EXPECT_EQ(parts.replayed.findings.at(i).detail, whole.findings[i].detail) << what;
    }
  }
  return whole;
}

TEST(RankReplay, AHealthyRunHasTheRatiosOfAWholeReplay) {
  for (const char* layout : {"pp2", "pp2,vpp1,dp2", "pp2,tp2", "pp2,dp2,zero1"}) {
    EXPECT_TRUE(expect_alike(run_in("gpt", layout), layout).findings.empty()) << layout;
  }
  // Eigen's sums have other bits: ratios are no zeros.
  expect_alike(run_in("llama", "pp2", "eigen"), "eigen");
}

TEST(RankReplay, StagesHoldMostOperationsWhole) {
  const Trace trace = run_in("gpt", "pp2");
  const Completed all = in_parts(trace, 100'000);
  EXPECT_GT(all.taken, 9 * trace.graph->nodes.size() / 10);
  EXPECT_GT(all.rest, 0U);  // what takes in the other stage's output
  EXPECT_EQ(in_parts(trace, 0).taken, 0U);
}

TEST(RankReplay, AWrongTensorIsFoundAsEver) {
  Trace trace = run_in("gpt", "pp2");
  values_of(trace, 1, "m1/layers.1.mlp.fc1/out").values[7] += 1;
  const Replayed whole = expect_alike(trace, "one number");
  ASSERT_FALSE(whole.findings.empty());
  EXPECT_EQ(whole.findings.front().id, "m1/layers.1.mlp.fc1/out");
}

// The upper stage's copy of the tied matrix is another one. By itself each stage is right.
TEST(RankReplay, ReplicasThatDisagreeAreReplayedAsMerged) {
  Trace trace = run_in("gpt", "pp2");
  const std::string tied = "embedding.weight/param@previous";
  for (float& x : values_of(trace, 1, tied).values) x += 0.5F;
  ASSERT_FALSE(merge(trace).findings.empty());
  expect_alike(trace, "replicas");
  // The head multiplied by the copy that does not count.
  Trace wrong = run_in("gpt", "pp2");
  for (float& x : values_of(wrong, 0, tied).values) x += 0.5F;
  EXPECT_FALSE(expect_alike(wrong, "the copy that counts").findings.empty());
}

// The rank whose value counts is wrong, its copy on another one right.
TEST(RankReplay, ACopyThatIsRightAcquitsNoOther) {
  Trace trace = run_in("gpt", "pp2,dp2");
  const std::string id = "layers.0.mlp.fc1.weight/param";
  ASSERT_TRUE(trace.ranks.at(1).shards.contains(id));
  values_of(trace, 0, id).values[0] += 1;
  const Replayed whole = expect_alike(trace, "a copy");
  ASSERT_FALSE(whole.findings.empty());
  EXPECT_EQ(whole.findings.front().id, id);
}

TEST(RankReplay, PartsAndSlicesAreNotTakenForWholes) {
  Trace trace = run_in("gpt", "pp2");
  const auto held = [&] {
    RankReplay rank;
    rank.begin(trace, 0);
    return rank.left();
  };
  const std::size_t all = held();
  Placement& lies = trace.ranks[0].shards.at("m0/layers.0.mlp.fc1/out").placement;
  const Placement before = lies;
  lies.parts = 2;
  EXPECT_LT(held(), all);
  lies = before;
  EXPECT_EQ(held(), all);
  lies.rows *= 2;
  EXPECT_LT(held(), all);
}

TEST(RankReplay, OnlyOperationsThatFitAreBegun) {
  const Trace trace = run_in("gpt", "pp2");
  RankReplay rank;
  rank.begin(trace, 0);
  EXPECT_FALSE(rank.one(-1));  // the message is late: nothing is begun, known or not
  while (rank.one(any_time)) {
  }
  const std::size_t all = rank.done();
  EXPECT_EQ(rank.left(), 0U);
  rank.begin(trace, 0);  // what they take is known now
  EXPECT_EQ(rank.left(), all);
  EXPECT_EQ(rank.done(), 0U);
  EXPECT_FALSE(rank.one(1e-9));
  EXPECT_TRUE(rank.one(any_time));
}

TEST(RankReplay, OtherTextIsRefused) {
  EXPECT_THROW(inside_from("12\n"), Failure);
  EXPECT_THROW(inside_from("12 much\n"), Failure);
  const Inside inside{{3, {0, 0.1}}, {12, {1e-300}}};
  EXPECT_EQ(inside_from(text_of(inside)), inside);
}

}  // namespace
}  // namespace plumb::rank_replay_test
