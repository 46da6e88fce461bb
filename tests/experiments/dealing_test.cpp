// Do keys that share what is costly go to one rank, and has each rank as much to do?
#include "experiments/dealing.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/rooms.hpp"

namespace plumb::dealing_test {
namespace {

using Keys = std::vector<std::string>;

Keys all_of(const std::vector<Keys>& dealt) {
  Keys all;
  for (const Keys& keys : dealt) all.insert(all.end(), keys.begin(), keys.end());
  std::ranges::sort(all);
  return all;
}

TEST(Dealing, KeysThatShareGoToOneRank) {
  const auto dealt = experiments::dealt({{"a", {"a1", "a2", "a3", "a4"}},
                                         {"b", {"b1", "b2", "b3"}},
                                         {"c", {"c1", "c2"}},
                                         {"d", {"d1"}}},
                                        2);
  // a (5, with what is shared), b (4), c (3) to b, d (2) to a.
  EXPECT_EQ(dealt,
            (std::vector<Keys>{{"a1", "a2", "a3", "a4", "d1"}, {"b1", "b2", "b3", "c1", "c2"}}));
}

TEST(Dealing, KeysThatShareNothingGoRoundTheRanks) {
  std::map<std::string, Keys> groups;
  Keys keys;
  for (int i = 100; i < 131; ++i) keys.push_back("key" + std::to_string(i));
  for (const std::string& key : keys) groups[key] = {key};
  const auto dealt = experiments::dealt(groups, 3);
  EXPECT_EQ(all_of(dealt), keys);
  EXPECT_EQ(dealt[0].size(), 11U);
  EXPECT_EQ(dealt[1].size(), 10U);
  EXPECT_EQ(dealt[2].size(), 10U);
  // By hash, not by name: neighbours do not stay together.
  EXPECT_NE(dealt[0], Keys(keys.begin(), keys.begin() + 11));
}

}  // namespace
}  // namespace plumb::dealing_test
