// The state that passes from step to step: a scale that reacts, a history that moves on, an Adam
// that waits.
#include <gtest/gtest.h>

#include <limits>

#include "bounds/examples/example.hpp"
#include "tests/support/rooms.hpp"

namespace plumb::training_state_test {
namespace {

Matrix<double> one(double x) { return Matrix<double>(1, 1, x); }

TEST(LossScale, HalvesAfterABadStepAndDoublesAfterEnoughGoodOnes) {
  const auto next = [](double scale, double good, double bad) {
    const auto y = evaluation_of({"loss_scale",
                                  {one(scale), one(good), one(bad)},
                                  {{"growth", 2}, {"backoff", 0.5}, {"interval", 3}},
                                  {}});
    return std::pair{y[0].values[0], y[1].values[0]};
  };
  EXPECT_EQ(next(1024, 0, 0), (std::pair{1024.0F, 1.0F}));
  EXPECT_EQ(next(1024, 2, 0), (std::pair{2048.0F, 0.0F}));
  EXPECT_EQ(next(1024, 2, 1), (std::pair{512.0F, 0.0F}));
  EXPECT_EQ(next(0x1p127, 2, 0), (std::pair{0x1p127F, 0.0F}));
}

TEST(AmaxHistory, TakesTheLargestOfAllMicroBatchesAndMovesOn) {
  Matrix<double> history(3, 1);
  history.values = {5, 6, 7};
  Matrix<double> b(1, 2, -9);
  b.values[1] = std::numeric_limits<double>::infinity();
  const auto y = evaluation_of({"amax_history", {history, one(8), b, one(-2)}, {}, {}})[0];
  EXPECT_EQ(y.values, (Tensor::Numbers{9, 5, 6}));
}

TEST(Adam, LeavesOutAStepWithWhateverGradient) {
  for (const double gradient : {0.5, std::numeric_limits<double>::quiet_NaN()}) {
    const Example e{"adam",
                    {one(2), one(0.5), one(0.25), one(gradient), one(1)},
                    {{"lr", 0.1}, {"beta1", 0.9}, {"beta2", 0.99}, {"eps", 1e-8}, {"step", 3}},
                    {}};
    const auto y = evaluation_of(e);
    const auto t = tolerance_of(e);
    ASSERT_TRUE(t) << t.error().detail;
    for (std::size_t o = 0; o < 3; ++o) {
      EXPECT_EQ(y[o].values[0], std::vector<float>({0.5F, 0.25F, 2.0F})[o]);
      EXPECT_EQ(t->bound[o].values[0], 0);
    }
    Example taken = e;
    taken.inputs[4] = one(0);
    EXPECT_NE(evaluation_of(taken)[2].values[0], 2);
    EXPECT_EQ(tolerance_of(taken).has_value(), gradient == 0.5);
  }
}

}  // namespace
}  // namespace plumb::training_state_test
