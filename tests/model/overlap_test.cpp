// Does what is under way happen in order, and at the latest where somebody waits? Are healthy runs
// the same bit by bit in every interleaving, and runs that lack a wait wrong in just those where
// what they did not wait for had not happened?
#include <gtest/gtest.h>

#include <mutex>
#include <set>

#include "model/joints/layout.hpp"
#include "model/rank/streams.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/rooms.hpp"
#include "tests/support/runs.hpp"
#include "trace/execute.hpp"

namespace plumb::overlap_test {
namespace {

TEST(Overlap, StepsOfALaneHappenInOrderAndAtTheLatestForWhoWaits) {
  std::set<std::string> seen;  // how far the streams were before anybody waited
  for (int seed = 1; seed <= 20; ++seed) {
    Streams streams(seed, 0);
    std::string happened;
    const auto issue = [&](Stream stream, char name) {
      return streams.issue(stream, [&happened, name] { happened += name; });
    };
    const Event a = issue(Stream::sums_in, 'a');
    const Event b = issue(Stream::sums_in, 'b');
    const Event c = issue(Stream::to_host, 'c');
    const Event d = issue(Stream::sums_in, 'd');
    for (int i = 0; i < 8; ++i) streams.progress();
    seen.insert(happened);
    EXPECT_EQ(streams.done(c), happened.find('c') != std::string::npos);
    const bool last_was_done = streams.done(d);
    streams.wait(b);
    EXPECT_TRUE(streams.done(a) && streams.done(b));
    EXPECT_LT(happened.find('a'), happened.find('b'));
    EXPECT_EQ(streams.done(d), last_was_done);  // nobody waited for it
    streams.finish();
    EXPECT_TRUE(streams.done(c) && streams.done(d));
    EXPECT_LT(happened.find('b'), happened.find('d'));
    EXPECT_EQ(happened.size(), 4U);
  }
  EXPECT_GT(seen.size(), 3U);
}

TEST(Overlap, WithoutASeedAStepHappensWhereItIsIssued) {
  Streams streams(0, 0);
  int happened = 0;
  for (int i = 1; i <= 100; ++i) {
    streams.issue(Stream::stage_out, [&] { ++happened; });
    EXPECT_EQ(happened, i);
  }
}

TEST(Overlap, WhatOthersWaitForIsGivenAndTheRestIsNot) {
  int given = 0, rest = 0;
  for (int seed = 1; seed <= 20; ++seed) {
    Streams streams(seed, 3);
    for (const Stream stream :
         {Stream::sums_out, Stream::shares_out, Stream::stage_out, Stream::parts_out}) {
      streams.issue(stream, [&] { ++given; });
    }
    for (const Stream stream : {Stream::sums_in, Stream::to_device})
      streams.issue(stream, [&] { ++rest; });
    streams.flush();
    EXPECT_EQ(given, 4 * seed);
  }
  EXPECT_LT(rest, 40);
}

// Four layers, so that rooms and boxes are used again, from a state that is not the first.
struct Case {
  Training run;
  Values leaves;

  Case(const std::string& family, const std::string& recipe) : run(small_run(family, recipe)) {
    run.config.layers = 4;
    const Values first = reference(plan(run.config, run.recipe, {}), leaves_of_run(run));
    leaves = next_state(run.config, run.recipe, first);
    run.step = 2;
    leaves.merge(step_data(run.config, small_text(), 2));
  }

  std::vector<RankRecord> records(const std::string& layout, int seed, const Joints& joints) {
    run.layout = parse_layout(layout);
    run.layout.overlap = seed;
    return train_step(run, leaves, joints, find_backend("reference")).ranks;
  }
};

bool same(const std::vector<RankRecord>& a, const std::vector<RankRecord>& b) {
  EXPECT_EQ(a.size(), b.size());
  for (std::size_t r = 0; r < a.size(); ++r) {
    EXPECT_EQ(a[r].shards.size(), b[r].shards.size());
    for (const auto& [id, shard] : a[r].shards) {
      if (!(shard.values == b[r].shards.at(id).values)) return false;
    }
  }
  return true;
}

// What was waited for, and whether it had happened before.
struct Waits {
  std::mutex mutex;
  std::map<std::pair<Wait, bool>, int> counts;

  void listen(Joints& joints) {
    joints.overlap.waits.replace([this](const Where&, Wait what, bool happened) {
      const std::lock_guard lock(mutex);
      ++counts[{what, happened}];
      return true;
    });
  }
};

TEST(Interleavings, ChangeNoBitOfAHealthyRun) {
  Waits waits;
  const std::vector<std::string> dense{"dp4",
                                       "dp2,tp2,sp,pp2",
                                       "pp2,vpp2",
                                       "dp2,zero3,tp2",
                                       "dp4,zero3,recompute:uniform2",
                                       "offload,pp2",
                                       "dp2,offload,recompute:uniform2,zero1"};
  const std::vector<std::string> of_experts{"dp4", "dp2,ep2,tp2,sp", "dp4,ep4,zero2"};
  for (const auto& [family, layouts] :
       {std::pair{"gpt", dense}, {"llama", dense}, {"llama-moe", of_experts}}) {
    Case of(family, "bf16");
    for (const std::string& layout : layouts) {
      const auto alone = of.records(layout, 0, Joints());
      for (int seed = 1; seed <= 3; ++seed) {
        Joints joints;
        waits.listen(joints);
        EXPECT_TRUE(same(of.records(layout, seed, joints), alone)) << family << layout << seed;
      }
    }
  }
  for (const auto what :
       {Wait::gradient, Wait::bucket_left, Wait::parameter, Wait::sent, Wait::received,
        Wait::parked, Wait::brought_back, Wait::gradient_on_host, Wait::parameter_back,
        Wait::input_gradient, Wait::gathered_rows, Wait::dispatched}) {
    EXPECT_GT((waits.counts[{what, true}]), 0) << static_cast<int>(what);
    EXPECT_GT((waits.counts[{what, false}]), 0) << static_cast<int>(what);
  }
}

TEST(Interleavings, ChangeNoBitOfExpertsAndShortOperands) {
  for (const auto& [family, recipe, layout] :
       {std::tuple{"gpt-moe", "bf16", "dp4,ep2,zero3"}, std::tuple{"llama-moe", "fp32", "dp2,ep2"},
        std::tuple{"gpt", "fp8-delayed", "dp2,zero3,pp2"},
        std::tuple{"llama", "bf16", "dp2,cp2,zero2"}, std::tuple{"gpt", "bf16", "tp4,sp"},
        std::tuple{"gpt", "fp8-current", "tp4"}}) {
    Case of(family, recipe);
    const auto alone = of.records(layout, 0, Joints());
    for (int seed = 1; seed <= effort(4); ++seed) {
      EXPECT_TRUE(same(of.records(layout, seed, Joints()), alone)) << family << layout << seed;
    }
  }
}

// A wait that no planted bug removes (those: tests/experiments/races_test.cpp).
struct Race {
  const char *name, *family, *layout;
  Wait wait;
  const char* of;

  bool is(const Where& where, Wait what) const { return what == wait && where.module == of; }
};
void PrintTo(const Race& race, std::ostream* out) { *out << race.name; }

class Missing : public testing::TestWithParam<Race> {};

// A wait that is missing bites where what it is for has not happened yet, as the schedule says.
TEST_P(Missing, ChangesBitsWhereThereWasSomethingToWaitForAndNowhereElse) {
  const Race& race = GetParam();
  Case of(race.family, "bf16");
  const auto healthy = of.records(race.layout, 0, Joints());
  const int seeds = 32;
  int bitten = 0;
  for (int seed = 1; seed <= seeds; ++seed) {
    Joints deaf;
    std::atomic<bool> pending = false;
    deaf.overlap.waits.replace([&](const Where& where, Wait what, bool happened) {
      const bool missing = race.is(where, what);
      if (missing && !happened) pending = true;
      return !missing;
    });
    const auto broken = of.records(race.layout, seed, deaf);
    EXPECT_EQ(same(broken, healthy), !pending) << "seed " << seed;
    if (seed % 8 == 0) {
      EXPECT_TRUE(same(broken, of.records(race.layout, seed, deaf)));
    }
    bitten += pending ? 1 : 0;
  }
  EXPECT_GT(bitten, 0);
  EXPECT_LT(bitten, seeds);
}

INSTANTIATE_TEST_SUITE_P(Waits, Missing,
                         testing::Values(Race{"parked", "gpt", "offload", Wait::parked, "layers.3"},
                                         Race{"gradient_on_host", "gpt", "offload",
                                              Wait::gradient_on_host, "layers.0.attn.qkv.weight"}),
                         [](const auto& of) { return of.param.name; });

}  // namespace
}  // namespace plumb::overlap_test
