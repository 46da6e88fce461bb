// Does a trial count as changed only what has other bits?
#include <gtest/gtest.h>

#include <cmath>

#include "experiments/trial.hpp"
#include "model/joints/memory.hpp"
#include "tests/support/rooms.hpp"
#include "tests/support/runs.hpp"

namespace plumb::same_bits_test {
namespace {

const Planted nothing{[](Joints&, const Config&) {}};

Start start_in(const char* recipe) {
  const Training run = small_run("gpt", recipe, "tp2");
  return start_of(run.config, run.recipe, run.layout, small_text());
}

Trial trial_of(const Start& start, const Planted& wrong) {
  return run_trials(start, wrong, {{}}).front();
}

TEST(SameBits, OfAHealthyRunAreNoChange) {
  EXPECT_FALSE(trial_of(start_in("bf16"), nothing).changed);
}

// A step that overflows has numbers that are not equal to themselves.
TEST(SameBits, OfAStepThatOverflowsAreNoChange) {
  Start start = start_in("fp16");
  start.leaves["loss_scale/scale@previous"] =
      std::make_shared<const Tensor>(1, 1, std::ldexp(1.0F, 120));
  const Merged healthy = merge(run_candidate(start, nullptr).trace);
  bool has_nan = false;
  for (const auto& [id, tensor] : healthy.values) {
    for (const float x : tensor->values) has_nan = has_nan || std::isnan(x);
  }
  ASSERT_TRUE(has_nan);
  EXPECT_FALSE(trial_of(start, nothing).changed);
}

TEST(SameBits, ASignOfZeroIsAChange) {
  const Planted sign{[](Joints& joints, const Config&) {
    joints.tensors.made.replace([](const Where& where, const std::string& id, Tensor& x) {
      if (id != "m0/layers.1.mlp.fc1/out" || where.tp != 0) return;
      for (float& v : x.values) v = v == 0 ? -v : v;
    });
  }};
  Start start = start_in("bf16");  // biases and weights of one column are zero
  for (const char* id : {"layers.1.mlp.fc1.weight", "layers.1.mlp.fc1.bias"}) {
    for (const char* kind : {"/param@previous", "/master@previous"}) {
      Tensor zero = *start.leaves.at(std::string(id) + kind);
      for (std::size_t i = 0; i < zero.size(); i += zero.cols) zero.values[i] = 0;
      start.leaves[std::string(id) + kind] = std::make_shared<const Tensor>(std::move(zero));
    }
  }
  EXPECT_TRUE(trial_of(start, sign).changed);
}

}  // namespace
}  // namespace plumb::same_bits_test
