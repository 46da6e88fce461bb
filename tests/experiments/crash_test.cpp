// Is every state that a crash may leave complete, resumed or reported; and would it be seen if not?
#include "experiments/crash/crash.hpp"

#include <gtest/gtest.h>

#include "tests/support/rooms.hpp"
#include "trace/store/disk.hpp"

namespace plumb::experiments {
void PrintTo(const Saved& saved, std::ostream* out) { *out << saved.name; }
}  // namespace plumb::experiments

namespace plumb::crash_test {
namespace {

using experiments::Tree;
using Kind = DiskStep::Kind;

std::set<Tree> states_of(const std::vector<DiskStep>& steps) {
  DiskModel disk("/disk");
  for (const DiskStep& step : steps) disk.apply(step);
  std::set<Tree> states;
  disk.states({}, [&](const Tree& tree, bool) { states.insert(tree); });
  return states;
}

const DiskStep created{Kind::create, "/disk/new"};
const DiskStep written{Kind::write, "/disk/new", {}, 0, "abcd"};
const DiskStep synced{Kind::sync, "/disk/new"};
const DiskStep renamed{Kind::rename, "/disk/new", "/disk/old"};
const DiskStep folder_synced{Kind::sync_folder, "/disk"};

TEST(DiskModel, KeepsWhatWasSyncedAndNothingElseForSure) {
  EXPECT_EQ(states_of({created, written, synced, folder_synced}),
            (std::set<Tree>{{{"new", "abcd"}}}));
  EXPECT_EQ(states_of({created, written, synced}), (std::set<Tree>{{}, {{"new", "abcd"}}}))
      << "the sync of a file does not bring its name along";
  const auto states = states_of({created, folder_synced, written});
  for (const char* bytes : {"", "abcd", "ab"}) {
    EXPECT_TRUE(states.contains({{"new", bytes}})) << bytes;
  }
  EXPECT_TRUE(states.contains({{"new", std::string(4, '\0')}})) << "its length alone";
}

TEST(DiskModel, LetsANameBeThereBeforeTheBytes) {
  const auto states = states_of({created, written, folder_synced, renamed});
  EXPECT_TRUE(states.contains({{"old", ""}}));
  EXPECT_TRUE(states.contains({{"new", "abcd"}}));
  EXPECT_FALSE(states.contains({})) << "a change of a name happens or not";
  EXPECT_EQ(states_of({created, written, synced, renamed, folder_synced}),
            (std::set<Tree>{{{"old", "abcd"}}}));
}

TEST(DiskModel, KeepsALaterWriteAndLosesAnEarlierOne) {
  const DiskStep later{Kind::write, "/disk/new", {}, 4, "efgh"};
  const auto states = states_of({created, folder_synced, written, later});
  EXPECT_TRUE(states.contains({{"new", std::string(4, '\0') + "efgh"}}));
  const DiskStep over{Kind::write, "/disk/new", {}, 0, "WXYZ"};
  const auto torn = states_of({created, written, synced, folder_synced, over});
  EXPECT_TRUE(torn.contains({{"new", "WXcd"}})) << "old bytes";
  EXPECT_FALSE(torn.contains({{"new", "WX"}})) << "its length was on the disk";
}

TEST(DiskModel, LosesFoldersAndFilesInAnyOrder) {
  const auto states = states_of({{Kind::make_folder, "/disk/a"},
                                 {Kind::create, "/disk/a/x"},
                                 {Kind::create, "/disk/y"},
                                 {Kind::cut, "/disk/y", {}, 2}});
  EXPECT_TRUE(states.contains({}));
  EXPECT_TRUE(states.contains({{"a/", ""}}));
  EXPECT_TRUE(states.contains({{"a/", ""}, {"a/x", ""}, {"y", ""}}));
  EXPECT_FALSE(states.contains({{"y", ""}})) << "behind one that was lost, in the same folder";
}

TEST(DiskModel, RefusesWhatADiskWould) {
  DiskModel disk("/disk");
  EXPECT_THROW(disk.apply({Kind::create, "/other/x"}), std::logic_error);
  EXPECT_THROW(disk.apply({Kind::write, "/disk/x", {}, 0, "a"}), std::logic_error);
  disk.apply({Kind::create, "/disk/x"});
  EXPECT_THROW(disk.apply({Kind::create, "/disk/x"}), std::logic_error);
}

class WhatIsSaved : public testing::TestWithParam<Saved> {
 protected:
  // Large results are not torn into blocks here; the experiment crash-states does so.
  DiskModel::Effort effort() const {
    const bool is_large = GetParam().name == "job" || GetParam().name == "state";
    if (is_large) return {.product = 32, .drawn = 4, .torn = false};
    return {};
  }
  // Of text a reader sees all damage.
  bool is_text() const { return GetParam().name == "spreads" || GetParam().name == "rows"; }
};

TEST_P(WhatIsSaved, IsNeverLostInSilenceBecauseOfItsSyncs) {
  Crash crash(GetParam());
  const CrashTally made = crash.tried(effort(), [](std::size_t) { return true; });
  EXPECT_EQ(made.of(AfterCrash::silent), 0U) << made.first_silent;
  EXPECT_EQ(made.of(AfterCrash::undone), 0U);
  EXPECT_GT(made.of(AfterCrash::complete), 0U);
  EXPECT_GT(made.of(AfterCrash::resumed), 0U);
  const CrashTally lost = crash.tried(effort(), [](std::size_t) { return false; });
  EXPECT_GT(lost.of(AfterCrash::undone), 0U) << "a disk that does not sync";
  EXPECT_EQ(lost.of(AfterCrash::silent) > 0, !is_text()) << lost.first_silent;
}

std::string name_of_saved(const testing::TestParamInfo<Saved>& saved) { return saved.param.name; }

INSTANTIATE_TEST_SUITE_P(Each, WhatIsSaved, testing::ValuesIn(all_saved()), name_of_saved);

}  // namespace
}  // namespace plumb::crash_test
