// What a bug costs: against the ends and the curves of healthy runs.
#include "experiments/costs.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/rooms.hpp"

namespace plumb::costs_test {
namespace {

// Ten points; the ends of the healthy runs have mean 2.1 and deviation 0.1.
const CurveOf falls{10, 9, 8, 7, 6, 5, 4, 3, 2, 1};
CurveOf raised(double by, std::size_t from, std::size_t to = 10) {
  CurveOf curve = falls;
  for (std::size_t i = from; i < to; ++i) curve[i] += by;
  return curve;
}
const std::vector<Learned> healthy{{falls, 2.0}, {raised(0.1, 0), 2.1}, {raised(0.05, 0), 2.2}};

Cost cost(const CurveOf& curve, double end) { return cost_of({curve, end}, healthy).value(); }

TEST(Costs, AreWhatOneHealthyRunInAHundredWouldHaveAboveTheMean) {
  // t of two degrees at 0.01 is 6.965; 6.965 x 0.1 x sqrt(4/3) = 0.804.
  EXPECT_EQ(cost(falls, 2.5).healthy, 3u);
  EXPECT_NEAR(cost(falls, 2.5).loss, 0.4, 1e-12);
  EXPECT_NEAR(cost(falls, 2.5).tolerance, 0.8042, 1e-4);
  EXPECT_EQ(cost(falls, 2.9).kind, CostKind::harmless);
  EXPECT_EQ(cost(falls, 2.91).kind, CostKind::silent);
  EXPECT_EQ(cost(falls, 1.0).kind, CostKind::harmless);
}

TEST(Costs, CurvesTellFromWhereTheyLeaveTheBandForGood) {
  EXPECT_EQ(cost(raised(1, 2), 5).kind, CostKind::visible);
  EXPECT_EQ(cost(raised(1, 6), 5).kind, CostKind::late);
  EXPECT_EQ(cost(raised(1, 2, 8), 5).kind, CostKind::silent);
  EXPECT_EQ(cost(raised(1, 0), 2).kind, CostKind::alarming);
  EXPECT_EQ(cost(raised(1, 7), 5).tells, 7u);
}

TEST(Costs, ALossThatIsNoNumberCostsEverything) {
  EXPECT_EQ(cost(raised(NAN, 1), NAN).kind, CostKind::visible);
}

TEST(Costs, RunsWithTheSameBitsCountOnce) {
  EXPECT_EQ(cost_of({falls, 2}, {healthy[0], healthy[0]}), std::nullopt);
  EXPECT_EQ(cost_of({falls, 2}, {healthy[0], healthy[0], healthy[1]})->healthy, 2u);
}

// A healthy run is judged by those with other bits; a run of another model by none of these.
TEST(Costs, RatesJudgeHealthyRunsByTheOthers) {
  Table rows(columns_of_costs(), 5);
  const auto add = [&](const char* model, const char* layout, const char* bug, double end) {
    for (const char* step : {"50", "100"}) {
      const bool last = step == std::string("100");
      rows.add({model, "bf16", layout, bug, step, "3", last ? cell(end) : "-"});
    }
  };
  add("gpt", "dp1", healthy_run, 2.0);
  add("gpt", "tp2", healthy_run, 2.01);
  add("gpt", "dp2", healthy_run, 9);
  add("gpt", "pp2", healthy_run, 9);
  add("gpt", "tp2", "some-bug", 2.8);
  add("llama", "tp2", "some-bug", 9);  // nothing to hold it against yet
  rows.add({"gpt", "bf16", "pp2", "lost-layer", "50", "-", "-"});
  const Table rates = rates_of_costs(rows);
  ASSERT_EQ(rates.rows().size(), 6u);
  const auto at = [&](const std::string& bug, const std::string& layout, const char* column) {
    for (const Table::Row& row : rates.rows()) {
      if (row[0] == bug && row[3] == layout) return row[rates.column(column)];
    }
    return std::string("absent");
  };
  EXPECT_EQ(at(healthy_run, "dp2", "healthy"), "2");  // pp2 has its bits
  EXPECT_EQ(at(healthy_run, "dp2", "kind"), "silent");
  EXPECT_EQ(at(healthy_run, "tp2", "kind"), "harmless");
  EXPECT_EQ(at("some-bug", "tp2", "healthy"), "3");
  EXPECT_EQ(at("some-bug", "tp2", "kind"), "harmless");
  EXPECT_EQ(at("lost-layer", "pp2", "kind"), "cannot go on");
}

}  // namespace
}  // namespace plumb::costs_test
