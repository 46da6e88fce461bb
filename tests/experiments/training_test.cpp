// Does training lower the loss, and does its rate rise and fall as it says?
#include "experiments/training.hpp"

#include <gtest/gtest.h>

#include "tests/support/runs.hpp"

namespace plumb {
namespace {

Start small(int steps, std::vector<double>& losses) {
  const Training run = small_run("gpt", "bf16");
  return trained(start_of(run.config, run.recipe, {}, small_text()), small_text(), steps,
                 [&](int, double loss) { losses.push_back(loss); });
}

TEST(Trained, LossFallsAndTheRateEndsAtATwentieth) {
  std::vector<double> losses;
  const Start end = small(60, losses);
  ASSERT_EQ(losses.size(), 59U);  // the last step is the caller's
  EXPECT_LT(losses.back(), losses.front() - 1);
  EXPECT_EQ(end.run.step, 60);
  EXPECT_DOUBLE_EQ(end.run.config.rate, 0.05 * Config().rate);
}

TEST(Trained, OneStepKeepsItsRate) {
  std::vector<double> losses;
  EXPECT_EQ(small(1, losses).run.config.rate, Config().rate);
  EXPECT_TRUE(losses.empty());
}

}  // namespace
}  // namespace plumb
