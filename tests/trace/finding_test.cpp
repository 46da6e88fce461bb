// Who is blamed where findings may be chance?
#include "trace/finding.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/rooms.hpp"

namespace plumb::finding_test {
namespace {

Finding by_twins(const char* id, double p) {
  Finding f{id, "norm", 2};
  f.p = p;
  return f;
}

TEST(Blame, PassesOverWhatMayBeChanceWhereSomethingIsNone) {
  const std::vector<Finding> findings{by_twins("a", 8e-3), by_twins("b", 1e-154),
                                      by_twins("c", 1e-200)};
  EXPECT_EQ(to_blame(findings, 1e-3).id, "b");
  EXPECT_EQ(to_blame(findings, 1e-2).id, "a");
}

TEST(Blame, IsOfTheFirstWhereAllMayBeChance) {
  const std::vector<Finding> findings{by_twins("a", 8e-3), by_twins("b", 1e-3)};
  EXPECT_EQ(to_blame(findings, 1e-3).id, "a");
}

TEST(Blame, IsOfTwinsThatAreEqualAndOfEveryOtherRule) {
  std::vector<Finding> findings{by_twins("a", 8e-3), by_twins("b", 0), by_twins("c", 1e-154)};
  EXPECT_EQ(to_blame(findings, 1e-3).id, "b");
  findings[1] = {"b", "mismatch", 2};  // no twin differs, and nobody says how seldom
  EXPECT_EQ(to_blame(findings, 1e-3).id, "c");
  findings[1] = {"b", "flat", 2};
  EXPECT_EQ(to_blame(findings, 1e-3).id, "b");
}

TEST(Blame, IsFirstOfWhatIsWrongByItself) {
  std::vector<Finding> findings{by_twins("a", 1e-154), {"b", "structure", 2}, {"c", "replay", 2}};
  EXPECT_EQ(to_blame(findings, 1e-3).id, "b");
  findings[1].may_follow = true;
  EXPECT_EQ(to_blame(findings, 1e-3).id, "c");
}

}  // namespace
}  // namespace plumb::finding_test
