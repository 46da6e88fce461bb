// Do tensors stand in the order that their producer tells, and is all that may come from one found?
#include "trace/order.hpp"

#include <gtest/gtest.h>

#include "tests/support/rooms.hpp"
#include "trace/structure.hpp"

namespace plumb::order_test {
namespace {

using Ids = std::set<std::string>;

About at(std::uint64_t order) {
  About about;
  about.order = order;
  return about;
}
About from(std::vector<std::string> ids, std::uint64_t order) {
  About about = at(order);
  about.from = std::move(ids);
  return about;
}

TEST(Order, OfExecutionPutsWhatHasNoneLast) {
  About given = at(1);
  given.role = Role::given;
  const DataflowOrder order(Abouts{{"z", at(2)}, {"a", at(7)}, {"weight", given}});
  EXPECT_LT(order("z"), order("a"));
  EXPECT_LT(order("a"), order("untold"));
  EXPECT_TRUE(order.made("untold"));
  EXPECT_FALSE(order.made("weight"));
  EXPECT_EQ(order.phase_of("a"), Phase::forward);
}

// A start that differs is perhaps the user's mistake, pieces that do not fit are the run's own.
TEST(Order, OfFindingsBeginsWithWhatNothingUpstreamMakesWrong) {
  About w = at(1), x = at(3);
  w.role = x.role = Role::given;
  const DataflowOrder order(Abouts{{"w", w}, {"x", x}, {"b", at(2)}, {"a", at(4)}});
  const std::string file = "rank_00001.safetensors", message = "messages/all_reduce 0";
  std::vector<Finding> findings{{"a", "replay", 2, ""},
                                {"b", "replay", 2, ""},
                                {"w", "structure", infinite, std::string(starts_otherwise)},
                                {"x", "structure", infinite, "replicas disagree"},
                                {message, "replay", 2, ""},
                                {file, "structure", infinite, ""}};
  put_in_order(findings, order);
  std::vector<std::string> ids;
  for (const Finding& f : findings) ids.push_back(f.id);
  EXPECT_EQ(ids, (std::vector<std::string>{file, message, "b", "x", "w", "a"}));
}

TEST(Order, OfAPromisePutsLeavesFirst) {
  const DataflowOrder order(Graph{{{"add", {"x"}, {"y"}, {}, {}, Phase::backward}}});
  EXPECT_LT(order("x"), order("y"));
  EXPECT_LT(order("y"), order("unpromised"));
  EXPECT_FALSE(order.made("x"));
  EXPECT_EQ(order.phase_of("y"), Phase::backward);
}

// Without a word on inputs, all that is later may depend on what is earlier.
TEST(MaybeMadeFrom, IsWhatIsLaterUnlessATensorSaysOtherwise) {
  const Abouts about{{"a", at(1)},
                     {"b", at(2)},
                     {"c", at(3)},
                     {"d", from({"a"}, 4)},
                     {"e", from({"c"}, 5)},
                     {"f", from({"e"}, 6)},
                     {"g", from({"gone"}, 7)}};
  const Ids ids{"a", "b", "c", "d", "e", "f", "g"};
  EXPECT_EQ(maybe_made_from({"b"}, ids, about), (Ids{"c", "e", "f", "g"}));
  EXPECT_EQ(maybe_made_from({"e"}, ids, about), (Ids{"f", "g"}));
  EXPECT_EQ(maybe_made_from({"a"}, ids, about), (Ids{"b", "c", "d", "e", "f", "g"}));
  EXPECT_TRUE(maybe_made_from({}, ids, about).empty());
}

TEST(MaybeMadeFrom, WithoutAnOrderIsEverythingThatIsNotGiven) {
  Abouts about{{"w", {}}, {"x", at(1)}};
  about["w"].role = Role::given;
  EXPECT_EQ(maybe_made_from({"y"}, {"w", "x", "y"}, about), Ids{"x"});
  EXPECT_EQ(maybe_made_from({"x"}, {"w", "x", "y"}, about), Ids{"y"});
}

// Of one moment neither is made from the other: gradients that are read at the end of a step.
TEST(MaybeMadeFrom, IsNothingOfTheSameMoment) {
  EXPECT_TRUE(maybe_made_from({"a"}, {"a", "b"}, {{"a", at(3)}, {"b", at(3)}}).empty());
}

}  // namespace
}  // namespace plumb::order_test
