// Is what the promise says of who holds what just what healthy runs record? And is it noticed if
// one rank's record is not that?
#include "model/plan/shards.hpp"

#include "tests/support/effort.hpp"
#include "tests/support/rooms.hpp"
#include "tests/support/runs.hpp"
#include "trace/merge.hpp"

namespace plumb::shards_test {
namespace {

struct Recorded {
  Training training;
  Trace trace;
  Merged merged;
  Shards promised;

  Recorded(const std::string& model, const std::string& recipe, const std::string& layout)
      : training(small_run(model, recipe, layout)),
        trace(train_step(training, leaves_of_run(training), Joints(), find_backend("reference"))),
        merged(merge(trace)),
        promised(promised_shards(training, *trace.graph, merged.values)) {}
};

std::string first(const std::vector<Finding>& findings) {
  if (findings.empty()) return "";
  return std::to_string(findings.size()) + ": " + findings.front().id + ": " +
         findings.front().detail;
}

using Case = std::tuple<const char*, const char*, std::vector<const char*>>;
class PromisedShards : public testing::TestWithParam<Case> {};

TEST_P(PromisedShards, AreWhatHealthyRunsRecord) {
  const auto& [model, recipe, layouts] = GetParam();
  for (const char* layout : some_of(layouts)) {
    Recorded run(model, recipe, layout);
    EXPECT_EQ(first(misplaced(run.trace, run.promised)), "") << layout;
    for (std::size_t rank = 0; rank < run.promised.size(); ++rank) {
      for (const auto& [id, ran] : run.trace.ranks[rank].ran) {
        EXPECT_TRUE(run.promised[rank].contains(id)) << layout << " " << id;
      }
    }
  }
}

const std::vector<const char*> dense{"dp1,tp1",
                                     "dp2,tp2,sp",
                                     "tp2,cp2",
                                     "cp2:ulysses,dp2",
                                     "dp2,cp2:ring,tp2,sp",
                                     "dp4,zero3",
                                     "dp4,zero2:2",
                                     "dp2,pp2,tp2,sp,zero3,recompute:selective",
                                     "pp2:1+1,recompute,zero1,dp2",
                                     "dp2,zero2,tp2,offload,overlap:3"};
const std::vector<const char*> of_experts{"tp2",
                                          "dp2,tp2,sp",
                                          "dp4,ep4",
                                          "dp4,ep2,zero2",
                                          "dp2,ep2,tp2,sp,zero3,pp2,recompute",
                                          "dp2,ep2,cp2,tp2",
                                          "cp2:ring,dp4,ep2,zero1"};

INSTANTIATE_TEST_SUITE_P(
    All, PromisedShards,
    testing::Values(Case{"gpt", "bf16", dense}, Case{"llama+sinks+qk_norm", "fp32", dense},
                    Case{"gpt+mtp", "fp8-delayed", dense},
                    Case{"llama+mtp+documents=2+latent=16+shared_key=4", "fp16", dense},
                    Case{"llama", "nvfp4", dense}, Case{"gpt", "fp8-block", dense},
                    Case{"llama+dropout=0.2", "bf16-pure", dense},
                    Case{"llama+latent=16", "mxfp8", dense},
                    Case{"gpt-moe+capacity=0.6", "bf16", of_experts},
                    Case{"llama-moe+balance_bias", "mxfp8", of_experts},
                    Case{"gpt-moe", "fp8-current", of_experts},
                    Case{"llama-moe+capacity=1.0", "nvfp4", of_experts},
                    Case{"gpt-moe", "fp8-delayed", of_experts},
                    Case{"llama-moe+mtp", "fp8-block", of_experts}));

// Every shard of one rank in turn: taken away, emptied, claimed to be its first row only, and what
// it says of how it computed it taken away. No replica covers for it.
class DamagedRecord : public testing::TestWithParam<const char*> {};

TEST_P(DamagedRecord, IsAFinding) {
  Recorded run("llama", "bf16", GetParam());
  const auto found = [&](const std::string& id) {
    const std::vector<Finding> findings = misplaced(run.trace, run.promised);
    return std::ranges::find(findings, without_recompute(id), &Finding::id) != findings.end();
  };
  Trace& trace = run.trace;
  for (RankRecord& record : trace.ranks) {
    const auto shards = record.shards;
    for (const auto& [id, shard] : shards) {
      if (shard.values.size() == 0) continue;
      record.shards.erase(id);
      EXPECT_TRUE(found(id)) << "taken away: " << id;
      record.shards[id] = {
          {shard.placement.rows, shard.placement.cols, {}}, Tensor(), shard.format};
      EXPECT_TRUE(found(id)) << "emptied: " << id;
      Shard row = shard;
      Piece& piece = row.placement.pieces.front();
      if (piece.global.rows > 1) {
        piece.global.rows = piece.local.rows = 1;
        row.placement.pieces.resize(1);
        record.shards[id] = row;
        EXPECT_TRUE(found(id)) << "its first row only: " << id;
      }
      record.shards[id] = shard;
      if (const auto ran = record.ran.extract(id)) {
        EXPECT_TRUE(found(id)) << "not said how: " << id;
        record.ran[id] = ran.mapped();
      }
    }
  }
  EXPECT_EQ(first(misplaced(run.trace, run.promised)), "");
}

INSTANTIATE_TEST_SUITE_P(All, DamagedRecord,
                         testing::Values("dp2,tp2,sp", "cp2:ring,tp2", "dp2,zero3",
                                         "pp2,dp2,zero1,recompute", "cp2:ulysses,dp2"));

}  // namespace
}  // namespace plumb::shards_test
