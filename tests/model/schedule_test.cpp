// Is the pipeline's order one forward, one backward, complete, and free of waiting for itself?
#include "model/spec/schedule.hpp"
#include "tests/support/rooms.hpp"

#include <gtest/gtest.h>

#include <map>

namespace plumb::schedule_test {
namespace {

using model::Task;

using Key = std::tuple<bool, int, int>;

Key key_of(const Task& t) { return {t.backward, t.micro_batch, t.stage}; }

// Ranks run their orders; a task waits for what it needs. True if all come to their end.
bool ends(const std::vector<std::vector<Task>>& orders, int stages) {
  std::map<Key, bool> done;
  std::vector<std::size_t> next(orders.size(), 0);
  const auto ready = [&](const Task& t) {
    if (!t.backward) return t.stage == 0 || done[{false, t.micro_batch, t.stage - 1}];
    return done[{false, t.micro_batch, t.stage}] &&
           (t.stage + 1 == stages || done[{true, t.micro_batch, t.stage + 1}]);
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t r = 0; r < orders.size(); ++r) {
      if (next[r] == orders[r].size() || !ready(orders[r][next[r]])) continue;
      done[key_of(orders[r][next[r]++])] = true;
      moved = true;
    }
  }
  for (std::size_t r = 0; r < orders.size(); ++r) {
    if (next[r] != orders[r].size()) return false;
  }
  return true;
}

TEST(Schedule, RunsEveryTaskOnceWithoutWaitingForItself) {
  for (const int ranks : {1, 2, 3, 4}) {
    for (const int virtual_stages : {1, 2, 3}) {
      for (const int n : {1, 2, 3, 8}) {
        const int stages = ranks * virtual_stages;
        const auto orders = schedule(ranks, stages, n);
        std::map<Key, int> times;
        for (std::size_t r = 0; r < orders.size(); ++r) {
          for (const Task& t : orders[r]) {
            EXPECT_EQ(t.stage % ranks, static_cast<int>(r));
            ++times[key_of(t)];
          }
        }
        EXPECT_EQ(times.size(), static_cast<std::size_t>(2 * stages * n));
        for (const auto& [task, count] : times) EXPECT_EQ(count, 1);
        EXPECT_TRUE(ends(orders, stages)) << ranks << " " << stages << " " << n;
      }
    }
  }
}

TEST(Schedule, AlternatesAfterAsManyForwardsAsStagesFollow) {
  const auto orders = schedule(3, 3, 4);
  const auto letters = [](const std::vector<Task>& order) {
    std::string text;
    for (const Task& t : order) {
      text += t.backward ? 'b' : 'f';
      text += std::to_string(t.micro_batch);
    }
    return text;
  };
  EXPECT_EQ(letters(orders[2]), "f0b0f1b1f2b2f3b3");
  EXPECT_EQ(letters(orders[1]), "f0f1b0f2b1f3b2b3");
  EXPECT_EQ(letters(orders[0]), "f0f1f2b0f3b1b2b3");
}

TEST(Schedule, InterleavedStagesHoldNoMoreThanFollow) {
  for (const auto& order : schedule(2, 4, 8)) {
    std::map<int, int> held;
    for (const Task& t : order) {
      held[t.stage] += t.backward ? -1 : 1;
      EXPECT_LE(held[t.stage], 4 - t.stage);
    }
  }
}

}  // namespace
}  // namespace plumb::schedule_test
