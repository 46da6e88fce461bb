// What travels with padding between it: no bit depends on it, and a reader that forgets it is seen.
#include <gtest/gtest.h>

#include <atomic>

#include "kernels/backend.hpp"
#include "model/joints/layout.hpp"
#include "model/run/start.hpp"
#include "tests/support/rooms.hpp"
#include "tests/support/runs.hpp"
#include "trace/check.hpp"
#include "trace/merge.hpp"

namespace plumb::padding_test {
namespace {

// Three ranks divide hardly any size.
class Padding : public testing::TestWithParam<const char*> {
 protected:
  static Trace candidate(const std::string& layout, const Joints& joints) {
    Training run = small_run("llama", "bf16", layout);
    run.config.micro_batches = 3;
    return run_candidate({run, leaves_of_run(run)}, joints).trace;
  }
  const std::string padded_ = std::string(GetParam()) + ",padded";
};

TEST_P(Padding, ChangesNoBit) {
  const Joints right;
  const Trace plain = candidate(GetParam(), right), padded = candidate(padded_, right);
  const Values expected = merge(plain).values, seen = merge(padded).values;
  ASSERT_EQ(seen.size(), expected.size());
  for (const auto& [id, x] : expected) EXPECT_EQ(seen.at(id)->values, x->values) << id;
}

TEST_P(Padding, AReaderThatForgetsItIsSeen) {
  Joints joints;
  std::atomic<int> moved = 0;
  joints.padding.begins.replace([&](const Where&, std::size_t packed, std::size_t promised) {
    moved += packed != promised ? 1 : 0;
    return packed;
  });
  Training run = small_run("llama", "bf16", padded_);
  run.config.micro_batches = 3;
  const Start start{run, leaves_of_run(run)};
  const Verdict verdict = check(run_reference(start), run_candidate(start, joints).trace, {});
  EXPECT_GT(moved, 0);
  EXPECT_EQ(verdict.exit_code(), 1);
}

INSTANTIATE_TEST_SUITE_P(Of, Padding,
                         testing::Values("dp3,zero1", "dp3,zero2", "dp3,zero3", "dp3,overlap:2",
                                         "dp3,zero3,overlap:2"));

}  // namespace
}  // namespace plumb::padding_test
