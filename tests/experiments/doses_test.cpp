// The smallest fault that rules see: of which runs, at which margin.
#include "experiments/doses.hpp"

#include <gtest/gtest.h>

#include "experiments/faults.hpp"
#include "experiments/said.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::doses_test {
namespace {

const Ranked seen{true, 9}, missed{false, 0.5};

TEST(Doses, ARuleSeesFromWhereItMissesNoLargerOne) {
  EXPECT_EQ(least_seen({{0.125, seen}, {0.25, seen}, {1, seen}}), 0.125);
  EXPECT_EQ(least_seen({{0.125, seen}, {0.25, missed}, {0.5, seen}, {1, seen}}), 0.5);
  EXPECT_EQ(least_seen({{0.5, seen}, {1, missed}}), std::nullopt);
  EXPECT_EQ(least_seen({}), std::nullopt);
}

TEST(Doses, TheMiddleOfWhatIsNotSeenIsNotSeen) {
  EXPECT_EQ(middle({0.25, std::nullopt, 0.5}), 0.5);
  EXPECT_EQ(middle({0.25, 1.0}), 0.5);
  EXPECT_EQ(middle({0.25, std::nullopt}), std::nullopt);
  EXPECT_EQ(middle({std::nullopt, 0.25, std::nullopt}), std::nullopt);
}

TEST(Doses, AreaIsTheChanceThatABrokenRunRanksHigher) {
  const std::vector<Ranked> healthy{{false, 1}, {false, 3}};
  EXPECT_EQ(area({{false, 2}, {false, 4}}, healthy), 0.75);
  EXPECT_EQ(area(healthy, healthy), 0.5);
  EXPECT_EQ(area({{true, 0}}, healthy), 1);  // who is accused ranks above who is not
}

// A rule of sizes is given the least margin at which it accuses as few healthy runs as ours, wider or
// narrower than its own; ours and the two it is made of have their verdicts.
TEST(Doses, RulesOfSizesAreHeldAtOurFalseAlarms) {
  Table rows(columns_of_doses(), 5);
  const auto add = [&](const char* fault, const char* seed, const char* size, const char* found,
                       const char* perturbation, const char* flat) {
    rows.add({fault, "gpt", "bf16", seed, size, found, "0.5", found, "0", perturbation, "0.1", flat,
              "7"});
  };
  add(no_fault, "1", "0", "0", "5", "0.2");
  add(no_fault, "2", "0", "0", "1", "0.1");
  add("scaled-gradient", "1", "1", "1", "9", "0.9");
  add("scaled-gradient", "1", "0.5", "1", "4", "0.3");
  add("scaled-gradient", "1", "0.25", "1", "2", "0.1");
  const Table rates = rates_of_doses(rows);
  const auto rate = [&](const std::string& rule, const std::string& at, const char* column) {
    for (const Table::Row& row : rates.rows()) {
      if (row[rates.column("rule")] == rule && row[rates.column("at")] == at)
        return row[rates.column(column)];
    }
    return std::string("absent");
  };
  EXPECT_EQ(rate(default_rules, "as given", "smallest"), "0.25");
  EXPECT_EQ(rate("twins", "as given", "smallest"), "0.25");
  EXPECT_EQ(rate("twins", "as given", "smallest_tried"), "0.25");
  EXPECT_EQ(rate("replay", "as given", "smallest"), "-");
  EXPECT_EQ(rate("perturbation", "as given", "margin"), "2");
  EXPECT_EQ(rate("perturbation", "as given", "healthy_accused"), "1");
  EXPECT_EQ(rate("perturbation", "as given", "smallest"), "0.5");
  EXPECT_EQ(rate("perturbation", "our false alarms", "margin"), "5");
  EXPECT_EQ(rate("perturbation", "our false alarms", "healthy_accused"), "0");
  EXPECT_EQ(rate("perturbation", "our false alarms", "smallest"), "1");
  EXPECT_EQ(rate("flat", "as given", "smallest"), "-");
  EXPECT_EQ(rate("flat", "our false alarms", "smallest"), "0.5");
  EXPECT_EQ(rate("flat", "our false alarms", "area"), "0.75");
  EXPECT_EQ(rate("flat", "our false alarms", "tensor"), "weight gradient");
}

TEST(Doses, EachKindOfTensorHasAFaultOfEachKind) {
  for (const char* tensor : {"activation", "backward", "weight gradient"}) {
    for (const char* kind : {"element", "row", "scale"}) {
      EXPECT_TRUE(std::ranges::any_of(
          all_faults(), [&](const Fault& f) { return f.tensor == tensor && f.kind == kind; }))
          << tensor << " " << kind;
    }
  }
}

}  // namespace
}  // namespace plumb::doses_test
