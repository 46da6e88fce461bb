// Does a lying trace pass? Traces of healthy runs are damaged in one place, in every place in turn
// (in every fourth, another one in each layout; with PLUMB_EFFORT=4 in every one); none may end with
// exit code 0.
#include <cmath>

#include "model/plan/verify.hpp"
#include "model/run/reference.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/rooms.hpp"
#include "tests/support/runs.hpp"
#include "trace/check.hpp"
#include "trace/execute.hpp"

namespace plumb::attacks_test {
namespace {

// A text for every outcome: "pass", "finding", "nothing could fail", or why it was refused.
std::string outcome(const Trace& reference, const Trace& candidate, const CheckOptions& options) {
  try {
    const Verdict v =
        check(reference, merge_verified(reference), candidate, merge_verified(candidate), options);
    return v.exit_code() == 0 ? "pass" : v.exit_code() == 1 ? "finding" : "nothing could fail";
  } catch (const Failure& failure) {
    return failure.what();
  }
}

class Attacks : public testing::TestWithParam<const char*> {
 protected:
  Attacks() {
    Training run = small_run("llama", "bf16", GetParam());
    run.config.sequence = 8;
    run.config.micro_batches = 2;
    run.config.width = 16;
    run.config.hidden = 16;
    const Values leaves = leaves_of_run(run);
    candidate_ = train_step(run, leaves, Joints(), find_backend("reference"));
    run.layout = {};
    reference_ = reference_trace(run, reference(plan(run.config, run.recipe, {}), leaves));
    options_.twins = 3;
  }

  // One place of four, or of as many as the effort says.
  bool taken() { return ++places_ % static_cast<std::size_t>(std::max(1, 16 / effort(4))) == 0; }

  Trace reference_, candidate_;
  CheckOptions options_;
  std::size_t places_ = std::string(GetParam()).size();  // where it begins
};

TEST_P(Attacks, AHealthyRunPasses) { EXPECT_EQ(outcome(reference_, candidate_, options_), "pass"); }

// A tensor of the reference that is not what its inputs make would be a tolerance of any size.
TEST_P(Attacks, NoReferenceWithATensorOfNoNumbersOrOfGarbagePasses) {
  for (auto& [id, shard] : reference_.ranks[0].shards) {
    if (!taken()) continue;
    const Tensor before = shard.values;
    for (float& x : shard.values.values) x = std::nanf("");
    EXPECT_NE(outcome(reference_, candidate_, options_), "pass") << "no numbers: " << id;
    shard.values = before;
    for (std::size_t e = 0; e < before.size(); ++e) {
      shard.values.values[e] = 3 - 7 * before.values[e] + static_cast<float>(e % 5);
    }
    EXPECT_NE(outcome(reference_, candidate_, options_), "pass") << "garbage: " << id;
    shard.values = before;
  }
}

TEST_P(Attacks, NoReferenceWithoutAnyNumberPassesUnderAnyRule) {
  for (const Node& node : reference_.graph->nodes) {
    for (const std::string& id : node.outputs) {
      for (float& x : reference_.ranks[0].shards.at(id).values.values) x = std::nanf("");
    }
  }
  for (const std::string rule : {"twins", "replay", "flat", "depth-law", "assert-close"}) {
    options_.rules = {rule};
    EXPECT_NE(outcome(reference_, candidate_, options_), "pass") << rule;
  }
}

// Every replica in turn: taken away; there, but said to be of nothing, and garbage. (What is found
// when shards are merged is a finding under every rule, and a tensor that nobody holds is refused;
// of some the whole verdict is asked.)
TEST_P(Attacks, NoCandidatePassesThatLacksAReplica) {
  options_.rules = {"replay"};
  const std::size_t whole = merge_verified(candidate_).values.size();
  int n = 0;
  const auto noticed = [&] {
    if (++n % 32 == 0) return outcome(reference_, candidate_, options_) != "pass";
    try {
      const Merged merged = merge_verified(candidate_);
      return !merged.findings.empty() || merged.values.size() < whole;
    } catch (const Failure&) {
      return true;
    }
  };
  for (RankRecord& record : candidate_.ranks) {
    const auto shards = record.shards;
    for (const auto& [id, shard] : shards) {
      if (shard.values.size() == 0 || !taken()) continue;
      record.shards.erase(id);
      EXPECT_TRUE(noticed()) << "taken away: " << id;
      Shard emptied = shard;
      emptied.placement.pieces.clear();
      for (float& x : emptied.values.values) x = std::nanf("");
      record.shards[id] = emptied;
      EXPECT_TRUE(noticed()) << "emptied: " << id;
      record.shards[id] = shard;
    }
  }
}

TEST_P(Attacks, NoCandidatePassesThatDoesNotSayHowItComputed) {
  options_.rules = {"replay"};
  for (RankRecord& record : candidate_.ranks) {
    const auto ran = record.ran;
    record.ran.clear();
    EXPECT_EQ(outcome(reference_, candidate_, options_), "finding");
    record.ran = ran;
    const std::string attention = "m0/layers.0.attn.core/out";
    if (!record.ran.contains(attention)) continue;
    record.ran[attention].tokens.ring = !record.ran[attention].tokens.ring;
    EXPECT_EQ(outcome(reference_, candidate_, options_), "finding");
    record.ran = ran;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Attacks,
                         testing::Values("dp2,tp2,sp", "cp2:ring,tp2", "dp2,zero3",
                                         "pp2,dp2,zero1,recompute", "cp2:ulysses"));

}  // namespace
}  // namespace plumb::attacks_test
