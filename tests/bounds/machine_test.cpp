#include "bounds/machine.hpp"

#include <gtest/gtest.h>

#include "bounds/outcome.hpp"

namespace plumb {
namespace {

TEST(Machine, EveryCardSaysWhereItsFactsComeFrom) {
  ASSERT_FALSE(all_machines().empty());
  for (const Machine& machine : all_machines()) {
    EXPECT_FALSE(machine.facts.empty());
    for (const Fact& fact : machine.facts) EXPECT_FALSE(fact.source.empty()) << fact.name;
  }
  ASSERT_NE(find_machine("ieee"), nullptr);
  EXPECT_TRUE(find_machine("ieee")->is_ieee());
  EXPECT_EQ(find_machine("abacus"), nullptr);
}

TEST(Machine, ACardThatTruncatesIsNotIeee) {
  const Machine machine = parse_machine("cutter", R"({"title": "cuts", "facts": [
      {"name": "rounding", "value": "toward_zero", "provenance": "measured", "source": "here"}]})");
  EXPECT_FALSE(machine.is_ieee());
  EXPECT_EQ(machine.fact("rounding")->provenance, Provenance::measured);
  EXPECT_EQ(name_of(machine.fact("rounding")->provenance), "measured");
}

TEST(Machine, AWrongCardIsNamed) {
  for (const char* text : {"", "{}", R"({"title": "x", "facts": [{"name": "a", "value": "b",
                           "provenance": "heard", "source": "pub"}]})"}) {
    try {
      (void)parse_machine("odd", text);
      FAIL() << "was taken";
    } catch (const Failure& failure) {
      EXPECT_NE(std::string(failure.what()).find("'odd'"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace plumb
