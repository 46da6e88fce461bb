// What would rules see at as few false alarms as the default ones?
#include <gtest/gtest.h>

#include <cmath>

#include "experiments/equal_alarms.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::equal_alarms_test {
namespace {

Judgement healthy_of(double ratio) {
  Judgement o;
  o.healthy = ratio;
  return o;
}

TEST(EqualAlarms, MarginIsTheLeastThatAccusesNoMoreRuns) {
  const std::vector<Judgement> all = {healthy_of(0.5), healthy_of(3), healthy_of(2),
                                      healthy_of(0.1)};
  EXPECT_EQ(margin_for(all, 0), 3);
  EXPECT_EQ(margin_for(all, 1), 2);
  EXPECT_EQ(margin_for(all, 4), 0);
  for (std::size_t allowed = 0; allowed <= all.size(); ++allowed) {
    std::vector<Judgement> moved;
    for (const Judgement& o : all) moved.push_back(at_margin(o, margin_for(all, allowed)));
    EXPECT_LE(accused_of(moved), allowed);
  }
}

TEST(EqualAlarms, AMarginMovesWhatIsDetectedAndWhoIsBlamed) {
  Judgement o;
  o.broken = 10;
  o.there = 5;
  o.before = 2;
  EXPECT_FALSE(at_margin(o, 10).detected);
  EXPECT_TRUE(at_margin(o, 9).detected);
  EXPECT_FALSE(at_margin(o, 6).blamed);  // too small to be seen where it bites
  EXPECT_TRUE(at_margin(o, 3).blamed);
  EXPECT_FALSE(at_margin(o, 1).blamed);  // another was named before
}

TEST(EqualAlarms, StructureBlamesForRulesThatHaveItNot) {
  Judgement o;
  o.structure = o.structure_blames = true;
  EXPECT_TRUE(o.found());
  EXPECT_TRUE(o.blamed_with_structure(false));
  EXPECT_FALSE(o.blamed_with_structure(true));
}

// Cells that are written are those that are read.
TEST(EqualAlarms, CellsOfATrialAreReadBack) {
  Trial trial;
  trial.reached = trial.changed = true;
  trial.bites_at = "m0/a/out";
  trial.broken.blamed = "m0/a/out";
  std::vector<std::string> columns = {"run", "rule"};
  columns.insert(columns.end(), columns_of_judgements.begin(), columns_of_judgements.end());
  Table rows(columns, 2);
  for (const std::string rule : {default_rules, structure_alone}) {
    Table::Row row = {"1", rule};
    for (const std::string& text : cells_of(rule, trial)) row.push_back(text);
    rows.add(row);
  }
  const Judgement o = judgement_of(rows, rows.rows().front(), blamed_by_structure(rows, 1), 1);
  EXPECT_TRUE(o.blamed);
  EXPECT_FALSE(o.accused);
  EXPECT_EQ(o.healthy, 0);
}

}  // namespace
}  // namespace plumb::equal_alarms_test
