// Does a planted race repeat from its seed, bite where its schedule says that something had not
// happened yet, nowhere else, and is it then blamed where it bites?
#include <gtest/gtest.h>

#include <atomic>

#include "experiments/trial.hpp"
#include "model/joints/layout.hpp"
#include "tests/support/bugs.hpp"
#include "tests/support/rooms.hpp"
#include "tests/support/runs.hpp"

namespace plumb::races_test {

namespace {

std::vector<const Bug*> races() {
  std::vector<const Bug*> all;
  for (const Bug* bug : all_bugs()) {
    if (parse_layout(std::string(bug->needs.layout)).overlap > 0) all.push_back(bug);
  }
  return all;
}

bool same(const Trace& a, const Trace& b) {
  for (std::size_t r = 0; r < a.ranks.size(); ++r) {
    for (const auto& [id, shard] : a.ranks[r].shards) {
      if (!(shard.values == b.ranks[r].shards.at(id).values)) return false;
    }
  }
  return true;
}

// The broken run, and whether it went on while what it should have waited for was under way.
std::pair<Trace, bool> broken(const Start& start, const Bug& bug) {
  Joints planted, listening;
  bug.plant(planted, {}, start.run.config);
  std::atomic<bool> raced = false;
  listening.overlap.waits.replace([&](const Where& where, Wait what, bool happened) {
    const bool waits = planted.overlap.waits(where, what, happened);
    if (!waits && !happened) raced = true;
    return waits;
  });
  Trace trace = train_step(start.run, start.leaves, listening, find_backend("reference"));
  return {std::move(trace), raced};
}

// Where the race bites: where its card says or, if that depends on what had come, the first tensor of
// the promise that is another.
std::string bites_at(const Bug& bug, const Config& config, const Trace& healthy,
                     const Trace& broken) {
  const Planted wrong = planted(bug, {}, config);
  const Candidate before{healthy, false}, after{broken, true};
  return changes_of(before, after, wrong, merge(healthy), merge(broken)).bites_at;
}

class Races : public testing::TestWithParam<const Bug*> {};

TEST_P(Races, BiteInTheInterleavingsInWhichTheyMustAndInNoOther) {
  const Bug& bug = *GetParam();
  const std::string family = bug.needs.family(Family::llama);
  const Training run = small_run(family, "bf16", std::string(bug.needs.layout));
  Start start = start_of(run.config, run.recipe, run.layout, small_text());
  const Trace reference = run_reference(start);
  start.run.layout.overlap = 0;
  const Trace healthy = run_candidate(start).trace;
  const int seeds = 32;
  int bitten = 0;
  for (int seed = 1; seed <= seeds; ++seed) {
    start.run.layout.overlap = seed;
    const auto [trace, raced] = broken(start, bug);
    ASSERT_EQ(same(trace, healthy), !raced) << "seed " << seed;
    if (!raced || ++bitten > 2) continue;
    EXPECT_TRUE(same(broken(start, bug).first, trace)) << "seed " << seed;
    EXPECT_EQ(check(reference, trace, {}).blamed, bites_at(bug, run.config, healthy, trace))
        << "seed " << seed;
  }
  EXPECT_GT(bitten, 0);
  EXPECT_LT(bitten, seeds);
}

INSTANTIATE_TEST_SUITE_P(Of, Races, testing::ValuesIn(races()), [](const auto& bug) {
  std::string name;
  for (const char c : bug.param->id) name += c == '-' ? '_' : c;
  return name;
});

}  // namespace
}  // namespace plumb::races_test
