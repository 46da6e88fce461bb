// Do ranks work while they wait, no longer than they must, and without changing a bit of the run?
#include "model/rank/waits.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "tests/support/rooms.hpp"
#include "tests/support/runs.hpp"
#include "trace/store/store.hpp"

namespace plumb::waits_test {
namespace {

// Pieces that take `length` and refuse where less is left.
struct Pieces final : IdleWork {
  double length = 1e-4;
  std::size_t left = 1'000'000, done = 0;
  double offered = 0;  // at most
  bool piece(double seconds) override {
    offered = std::max(offered, seconds);
    if (left == 0 || seconds < length) return false;
    std::this_thread::sleep_for(std::chrono::duration<double>(length));
    --left;
    ++done;
    return true;
  }
};

// Rank 0 sends late; rank 1 receives.
void send_late(double seconds, Waits& waits) {
  const std::vector<Division> together{[](int) { return 0; }};
  threads().run(2, together, [&](int rank, Groups& groups) {
    Waits other;
    Waits& own = rank == 0 ? other : waits;
    own.begin(*groups[0]);
    if (rank == 0) {
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
      groups[0]->send(1, 5, Tensor(1, 1, 7.0F));
    } else {
      EXPECT_EQ(own.receive(*groups[0], 0, 5), Tensor(1, 1, 7.0F));
    }
    own.end(*groups[0], 6);
  });
}

TEST(Waits, AreForeseenByStepsWithoutWorkAndThenUsed) {
  Waits waits;
  Pieces pieces;
  waits.work = &pieces;
  send_late(0.05, waits);
  EXPECT_EQ(pieces.done, 0U);  // nothing is foreseen yet
  waits.work = nullptr;
  send_late(0.05, waits);
  EXPECT_EQ(waits.seen().pieces, 0U);
  EXPECT_EQ(waits.seen().messages, 2U);  // and that of the end
  EXPECT_GE(waits.seen().waited, 0.04);
  waits.work = &pieces;
  send_late(0.05, waits);
  EXPECT_GT(pieces.done, 10U);
  EXPECT_EQ(waits.seen().pieces, pieces.done);
  EXPECT_GT(waits.seen().worked, 0);
  EXPECT_LE(waits.seen().worked, waits.seen().waited);
  EXPECT_LE(waits.seen().waited, waits.seen().pipeline);
}

TEST(Waits, EndWithTheMessageThoughWorkIsLeft) {
  Waits waits;
  send_late(0.2, waits);
  Pieces pieces;
  waits.work = &pieces;
  send_late(0, waits);  // earlier than foreseen
  EXPECT_LT(waits.seen().waited, 0.1);
  EXPECT_GT(pieces.left, 0U);
  // What is foreseen does not follow steps with other work: their waits are no longer the run's.
  pieces.offered = 0;
  send_late(0.05, waits);
  EXPECT_GT(pieces.offered, 0.075);  // half of 0.2; it would be half of 0.1
}

// Every layout with stages, with transfers that overlap and without.
TEST(Waits, ChangeNoBitOfARun) {
  for (const char* layout : {"pp2", "pp2,vpp2", "pp4", "pp2,dp2,zero2", "pp2,tp2,sp,overlap:3"}) {
    Training run = small_run("gpt", "bf16", layout);
    run.config.layers = 4;
    const Values leaves = leaves_of_run(run);
    const auto bytes = [&](std::vector<Waits>* waits) {
      const Trace trace =
          train_step(run, leaves, Joints(), find_backend("reference"), threads(), nullptr, waits);
      std::string all;
      for (const RankRecord& rank : trace.ranks) all += bytes_of(rank);
      return all;
    };
    const std::string healthy = bytes(nullptr);
    std::vector<Waits> waits(static_cast<std::size_t>(run.layout.world_size()));
    EXPECT_EQ(bytes(&waits), healthy) << layout;
    std::vector<Pieces> pieces(waits.size());
    for (std::size_t r = 0; r < waits.size(); ++r) {
      pieces[r].length = 1e-6;
      waits[r].work = &pieces[r];
    }
    EXPECT_EQ(bytes(&waits), healthy) << layout;
    std::size_t done = 0;
    for (const Pieces& each : pieces) done += each.done;
    EXPECT_GT(done, 0U) << layout;
    for (const Waits& each : waits) EXPECT_GT(each.seen().messages, 0U) << layout;
  }
}

}  // namespace
}  // namespace plumb::waits_test
