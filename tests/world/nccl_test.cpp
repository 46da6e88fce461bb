// One GPU, one rank: everything that does not need another rank goes through NCCL and comes back.
#include <gtest/gtest.h>

#include "number/outcome.hpp"
#include "tests/support/rooms.hpp"
#include "world/world.hpp"

namespace plumb::nccl_test {
namespace {

const std::vector<Division> together{[](int) { return 0; }};

TEST(Nccl, AGroupOfOneGetsBackWhatItGave) {
  // Nothing else is a reason: where there is a GPU, a failure of CUDA or NCCL is one of this test.
  if (const std::string reason = why_no_nccl(); !reason.empty()) GTEST_SKIP() << reason;
  nccl().run(1, together, [](int, Groups& groups) {
    const Tensor x(3, 2, 1.5F);
    EXPECT_EQ(groups[0]->gather_rows(x), x);
    EXPECT_EQ(groups[0]->exchange({x}), std::vector<Tensor>{x});
    std::vector<float> largest{2, -3};
    groups[0]->max(largest);
    EXPECT_EQ(largest, (std::vector<float>{2, -3}));
    double sum = 0.1;
    groups[0]->sum(sum);
    EXPECT_EQ(sum, 0.1);
    groups[0]->send(0, 1, x);
    EXPECT_EQ(groups[0]->receive(0, 1), x);
    std::vector<float> alone{1 + 0x1p-20F};  // a group of one rounds nothing
    groups[0]->sum(alone, bf16);
    EXPECT_EQ(alone[0], 1 + 0x1p-20F);
  });
}

TEST(Nccl, RefusesMoreRanksThanGpus) {
  try {
    nccl().run(4096, together, [](int, Groups&) { FAIL(); });
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_NE(std::string(failure.what()).find("--world threads"), std::string::npos);
  }
}

}  // namespace
}  // namespace plumb::nccl_test
