// What a bug costs: against the ends and the curves of healthy runs.
#include "experiments/costs.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/rooms.hpp"

namespace plumb {
namespace {

const std::vector<Learned> healthy{{{5, 4, 3, 2}, 2.0}, {{5, 4.1, 3.1, 2.1}, 2.1}};

TEST(Costs, AreWhatLiesAboveTheWorstHealthyEndByMoreThanTheseDiffer) {
  const Cost inside = cost_of({{5, 4, 3, 2}, 2.15}, healthy);
  EXPECT_NEAR(inside.loss, 0.05, 1e-12);
  EXPECT_NEAR(inside.scatter, 0.1, 1e-12);
  EXPECT_EQ(inside.kind, CostKind::harmless);
  EXPECT_EQ(cost_of({{5, 4, 3, 2}, 2.3}, healthy).kind, CostKind::silent);
  EXPECT_EQ(cost_of({{5, 4, 3, 2}, 1.0}, healthy).kind, CostKind::harmless);
}

TEST(Costs, CurvesTellFromWhereTheyLeaveTheBandForGood) {
  EXPECT_EQ(cost_of({{5, 6, 6, 6}, 3}, healthy).kind, CostKind::visible);
  EXPECT_EQ(cost_of({{5, 6, 3, 6}, 3}, healthy).kind, CostKind::late);
  EXPECT_EQ(cost_of({{5, 6, 6, 2}, 3}, healthy).kind, CostKind::silent);
  EXPECT_EQ(cost_of({{6, 6, 6, 6}, 2}, healthy).kind, CostKind::alarming);
  EXPECT_EQ(cost_of({{5, 4, 3, 6}, 3}, healthy).tells, 3u);
}

TEST(Costs, ALossThatIsNoNumberCostsEverything) {
  EXPECT_EQ(cost_of({{5, NAN, NAN, NAN}, NAN}, healthy).kind, CostKind::visible);
}

// Each healthy run is judged by the others; a run of another model by none of these.
TEST(Costs, RatesJudgeHealthyRunsByTheOthers) {
  Table rows(columns_of_costs(), 5);
  const auto add = [&](const char* model, const char* layout, const char* bug, double end) {
    for (const char* step : {"50", "100"}) {
      const bool last = step == std::string("100");
      rows.add({model, "bf16", layout, bug, step, "3", last ? cell(end) : "-"});
    }
  };
  add("gpt", "dp1", healthy_run, 2.0);
  add("gpt", "tp2", healthy_run, 2.1);
  add("gpt", "dp2", healthy_run, 2.5);
  add("gpt", "tp2", "some-bug", 2.8);
  add("llama", "tp2", "some-bug", 9);  // nothing to hold it against yet
  const Table rates = rates_of_costs(rows);
  ASSERT_EQ(rates.rows().size(), 4u);
  const auto kind = [&](const std::string& bug, const std::string& layout) {
    for (const Table::Row& row : rates.rows()) {
      if (row[0] == bug && row[3] == layout) return row[rates.column("kind")];
    }
    return std::string("absent");
  };
  EXPECT_EQ(kind(healthy_run, "dp2"), "silent");  // 0.4 above what two that differ by 0.1 reached
  EXPECT_EQ(kind(healthy_run, "tp2"), "harmless");
  EXPECT_EQ(kind("some-bug", "tp2"), "harmless");  // 0.3 above where healthy ones differ by 0.5
}

}  // namespace
}  // namespace plumb
