// Do ranks of a pipeline wait as long as the formulas say? Does other work fit into their waits as
// one counts by hand?
#include "model/estimate/bubbles.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "number/outcome.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::bubbles_test {
namespace {

using model::Task;

// Times are sums of fewer than 2^14 rounded terms here.
constexpr double rounding = 0x1p-38;

TEST(Bubbles, OneForwardOneBackwardWaitsAsPublished) {
  for (const int ranks : {1, 2, 4, 8, 16}) {
    for (const int n : {1, 3, 4, 16, 64}) {
      for (const double backward : {1.0, 2.0, 2.5}) {
        const auto orders = schedule(ranks, ranks, n);
        const Bubbles seen = bubbles_of(orders, ranks, {1, backward, 0}, {});
        EXPECT_NEAR(seen.share, published_share(ranks, 1, n), rounding) << ranks << " " << n;
        EXPECT_NEAR(seen.step, (n + ranks - 1) * (1 + backward), rounding * seen.step);
      }
    }
  }
}

TEST(Bubbles, TheInterleavedOrderWaitsAsPublished) {
  for (const int ranks : {2, 4, 8, 16}) {
    for (const int chunks : {1, 2, 4}) {
      for (const int times : {1, 2, 4}) {
        const int n = ranks * times;
        const auto orders = interleaved(ranks, chunks, n);
        const Bubbles seen = bubbles_of(orders, ranks * chunks, {1, 2, 0}, {});
        EXPECT_NEAR(seen.share, published_share(ranks, chunks, n), rounding)
            << ranks << " " << chunks << " " << n;
      }
    }
  }
}

// A stage holds at most as many micro-batches as there are stages from it to the end: the last
// chunks wait for their backward before the next forward, in every round.
TEST(Bubbles, TheOrderOfThisProgramWaitsLongerWhereStagesTakeTurns) {
  const auto share = [](const Orders& orders) { return bubbles_of(orders, 8, {}, {}).share; };
  EXPECT_GT(share(schedule(4, 8, 16)), 1.5 * share(interleaved(4, 2, 16)));
}

TEST(Bubbles, AnInterleavedOrderHasEveryTaskOnce) {
  const Orders orders = interleaved(4, 2, 8);
  std::set<std::tuple<bool, int, int>> tasks;
  for (std::size_t r = 0; r < orders.size(); ++r) {
    for (const Task& t : orders[r]) {
      EXPECT_EQ(t.stage % 4, static_cast<int>(r));
      EXPECT_TRUE(tasks.insert({t.backward, t.micro_batch, t.stage}).second);
    }
  }
  EXPECT_EQ(tasks.size(), 2U * 8 * 8);
  // Rank 1 begins with 2 (4 - 1 - 1) + (2 - 1) 4 forwards, and one more before its first backward.
  const auto first = std::ranges::find_if(orders[1], &Task::backward);
  EXPECT_EQ(first - orders[1].begin(), 2 * 2 + 4 + 1);
  EXPECT_THROW(interleaved(4, 2, 6), Failure);
}

// Two ranks, one micro-batch: rank 0 waits for 1 + 2 between its tasks, rank 1 for 1 before and 2
// after its own.
TEST(Bubbles, AreFilledAsOneCountsByHand) {
  const auto orders = schedule(2, 2, 1);
  Filling pieces{9, 1, 0, Fill::foreseen};
  const Bubbles whole = bubbles_of(orders, 2, {}, pieces);
  EXPECT_EQ(whole.waits, (std::vector<double>{3, 3}));
  EXPECT_NEAR(whole.share, 0.5, rounding);
  EXPECT_NEAR(whole.used, 1, rounding);
  EXPECT_NEAR(whole.fitted, 1.0 / 3, rounding);
  EXPECT_EQ(whole.steps(), 3);
  EXPECT_NEAR(whole.slow_down, 0, rounding);

  pieces.piece = 0.75;  // 4 into the wait of 3; 1 into that of 1, 2 into that of 2
  const Bubbles parts = bubbles_of(orders, 2, {}, pieces);
  EXPECT_NEAR(parts.used, 0.75 * (4 + 1 + 2) / 6, rounding);
  EXPECT_NEAR(parts.slow_down, 0, rounding);

  pieces.piece = 4;  // fits nowhere
  const Bubbles none = bubbles_of(orders, 2, {}, pieces);
  EXPECT_EQ(none.used, 0);
  EXPECT_EQ(none.steps(), 0);
}

// Rank 1 begins at 1.5, after two pieces, and rank 0 takes five, to 1 + 3.75: the step ends at 6.75.
TEST(Bubbles, APieceThatEndsLateDelaysTheStep) {
  const auto orders = schedule(2, 2, 1);
  const Bubbles seen = bubbles_of(orders, 2, {}, {9, 0.75, 0, Fill::polled});
  EXPECT_NEAR(seen.step, 6, rounding);
  EXPECT_NEAR(seen.slow_down, 0.75 / 6, rounding);
  const Bubbles fits = bubbles_of(orders, 2, {}, {9, 0.5, 0, Fill::polled});
  EXPECT_NEAR(fits.slow_down, 0, rounding);
}

TEST(Bubbles, ChangingToAPieceTakesTimeThatDoesNoWork) {
  const auto orders = schedule(2, 2, 1);
  const Bubbles seen = bubbles_of(orders, 2, {}, {9, 0.75, 0.25, Fill::foreseen});
  EXPECT_NEAR(seen.used, 0.75, rounding);  // 3, 1 and 2 pieces of 1 each, a quarter of it change
}

TEST(Bubbles, MessagesThatTravelAreWaitedFor) {
  const auto orders = schedule(4, 4, 8);
  const Bubbles near = bubbles_of(orders, 4, {1, 2, 0}, {});
  const Bubbles far = bubbles_of(orders, 4, {1, 2, 0.25}, {});
  EXPECT_GT(far.step, near.step + 2 * 3 * 0.25 - rounding);  // there and back
}

// GPT of the default sizes: 128 x 512 of 3 + 1 + 4 + 4 quarters of it, and attention's 2 x 64 x 128.
TEST(Bubbles, TheLargestProductIsAShareOfItsLayer) {
  const Config c = config_of("gpt");
  const double square = 128.0 * 128, all = (3 + 1 + 4 + 4) * square + 2 * 64 * 128;
  EXPECT_NEAR(size_of(Grain::operation, c, 2), 4 * square / all / 2, rounding);
  EXPECT_EQ(size_of(Grain::layer, c, 4), 0.25);
  EXPECT_EQ(size_of(Grain::micro_batch, c, 4), 1);
}

}  // namespace
}  // namespace plumb::bubbles_test
