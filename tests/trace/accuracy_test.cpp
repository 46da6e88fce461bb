// Are errors against a better run those that were made, and is no other run taken for one?
#include "trace/accuracy.hpp"

#include <gtest/gtest.h>

#include "tests/support/twin_traces.hpp"

namespace plumb::accuracy_test {
namespace {

using AgainstABetterRun = WithTwinTraces;

constexpr const char* changed = "m0/layers.1.attn.proj/out";

TEST_F(AgainstABetterRun, ErrorsAreThoseThatWereMade) {
  Trace better = reference_;
  better.manifest.settings["recipe"] = "fp32";
  for (auto& [id, shard] : better.ranks[0].shards) {
    if (id == changed) scale(shard.values, 0.5F);  // so that the reference errs by its whole size
  }
  change(changed, [](Tensor& x) { scale(x, 2.0F); });
  options_.better = &better;
  const Verdict v = verdict();
  const Accuracy& errors = v.accuracies.at(changed);
  EXPECT_NEAR(errors.reference, 1, 1e-6);
  EXPECT_NEAR(errors.candidate, 3, 0.05);
  EXPECT_NEAR(errors.ratio(), 3, 0.05);
  for (const auto& [id, all] : v.accuracies) {
    EXPECT_EQ(all.reference > 0, id == changed) << id;
  }
  EXPECT_FALSE(v.accuracies.contains("m0/data/ids"));  // was given
  EXPECT_GT(v.accuracies.size(), 300U);
  const auto said = [](const std::string& note) { return note.starts_with("against the better"); };
  EXPECT_EQ(std::ranges::count_if(v.notes, said), 1);

  better.ranks[0].shards.erase(changed);
  EXPECT_EQ(std::ranges::count(verdict().notes, "the better run lacks 1 of the judged tensors"), 1);
}

TEST_F(AgainstABetterRun, IsOfTheSameStepSettingsAndData) {
  Trace better = reference_;
  options_.better = &better;
  EXPECT_EQ(refusal(), "");
  better.manifest.settings["seed"] = "77";
  EXPECT_NE(refusal().find("better run 77"), std::string::npos) << refusal();
  better.manifest.settings["seed"] = reference_.manifest.settings.at("seed");
  better.ranks[0].shards.at("m0/data/ids").values.values[0] += 1;
  EXPECT_NE(refusal().find("other data than the reference, or lacks them ('m0/data/ids')"),
            std::string::npos)
      << refusal();
  better = reference_;
  better.manifest.step += 1;
  EXPECT_NE(refusal().find("not the same step"), std::string::npos) << refusal();
  better = reference_;
  std::erase_if(better.ranks[0].shards,
                [](const auto& s) { return s.first.find("data/") == std::string::npos; });
  EXPECT_NE(refusal().find("none of the tensors"), std::string::npos) << refusal();
}

}  // namespace
}  // namespace plumb::accuracy_test
