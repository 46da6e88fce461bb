// Does plumb dry say how long ranks of a pipeline wait, and what of a check fits into that, and
// nothing of it where nobody waits?
#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"

namespace plumb::dry_test {
namespace {

nlohmann::json dry(const std::string& words) {
  const Said said = plumb("dry " + words + " --json");
  EXPECT_EQ(said.code, 0) << said.out;
  return nlohmann::json::parse(said.out);
}

// 1F1B on 4 ranks, 8 micro-batches: they wait for 3 / 11 of the step, in which their own work is
// 8 / 11; of a check of two steps 3 / 16 fit, but for pieces.
TEST(DryPipeline, SaysWhatFitsAsOneCountsByHand) {
  const std::string shape = "--layout pp4 --layers 4 --micro-batches 8 ";
  const auto p = dry(shape + "--check-steps 2 --piece micro-batch")["pipeline"];
  EXPECT_EQ(p["ranks"], 4);
  EXPECT_EQ(p["micro_batches"], 8);
  EXPECT_EQ(p["check_steps_by"], "--check-steps");
  ASSERT_EQ(p["orders"].size(), 1U);
  const auto& row = p["orders"][0];
  EXPECT_NEAR(row["waits"].get<double>(), 3.0 / 11, 1e-12);  // digits of the JSON
  EXPECT_NEAR(row["fits"].get<double>(), 3.0 / 16, 1e-12);
  EXPECT_EQ(row["steps"], 6);
  // Of data-parallel ranks each has half of the micro-batches.
  const auto halves = dry("--layout dp2,pp4 --layers 4 --micro-batches 8")["pipeline"];
  EXPECT_EQ(halves["micro_batches"], 4);
}

TEST(DryPipeline, TakesCostsOfTasksAndOfChecks) {
  const std::string shape = "--layout pp4 --layers 4 --micro-batches 8 ";
  const auto waits = [&](const std::string& more) {
    return dry(shape + more)["pipeline"]["orders"][0]["waits"].get<double>();
  };
  EXPECT_NEAR(waits("--backward 3"), 3.0 / 11, 1e-12);
  EXPECT_GT(waits("--send 0.5"), 3.0 / 11 + 1e-3);
  const auto measured = dry(shape)["pipeline"];
  EXPECT_EQ(measured["check_steps_by"], "rows of step-cost");
  EXPECT_GT(measured["check_steps"].get<double>(), 1);
}

TEST(DryPipeline, ShowsThePublishedOrderBesideItsOwn) {
  const auto p = dry("--layout pp4,vpp2 --layers 8 --micro-batches 8")["pipeline"];
  ASSERT_EQ(p["orders"].size(), 2U);
  EXPECT_EQ(p["orders"][1]["order"], "interleaved");
  EXPECT_NEAR(p["orders"][1]["waits"].get<double>(), 3.0 / 19, 1e-12);
  EXPECT_GT(p["orders"][0]["waits"].get<double>(), 3.0 / 19);
  // The published order wants a multiple of the ranks.
  EXPECT_EQ(dry("--layout pp4,vpp2 --layers 8 --micro-batches 6")["pipeline"]["orders"].size(), 1U);
}

TEST(DryPipeline, OptionsAreRefusedWhereNobodyWaits) {
  EXPECT_FALSE(dry("--layout tp2").contains("pipeline"));
  refused("dry --layout tp2 --check-steps 2", "say ppN");
  refused("dry --layout tp2 --piece layer", "say ppN");
  EXPECT_EQ(plumb("dry --layout pp2 --piece word").code, 2);
}

}  // namespace
}  // namespace plumb::dry_test
