// Are collectives what they say, in rank order, and does a failing rank free the others?
#include <gtest/gtest.h>

#include "world/world.hpp"

namespace plumb {
namespace {

TEST(Threads, SumInRankOrderRoundingEveryPartAndRunningSum) {
  std::vector<float> sums(4);
  on_threads(1, 4, [&](int rank, Mesh mesh) {
    // In BF16 256 + 1 + 1 + 1 is 256 from the left; from the right it would be 260.
    float x = rank == 0 ? 256.0F : 1.0F;
    mesh.tp.sum({&x, 1}, bf16);
    sums[static_cast<std::size_t>(rank)] = x;
  });
  for (const float sum : sums) EXPECT_EQ(sum, 256.0F);
}

TEST(Threads, GroupsAreSeparate) {
  std::vector<float> tp(4, 0), dp(4, 0);
  on_threads(2, 2, [&](int rank, Mesh mesh) {
    float a = static_cast<float>(rank), b = static_cast<float>(rank);
    mesh.tp.sum({&a, 1}, fp32);
    mesh.dp.sum({&b, 1}, fp32);
    tp[static_cast<std::size_t>(rank)] = a;
    dp[static_cast<std::size_t>(rank)] = b;
  });
  EXPECT_EQ(tp, (std::vector<float>{1, 1, 5, 5}));
  EXPECT_EQ(dp, (std::vector<float>{2, 4, 2, 4}));
}

TEST(Threads, GatherAndMax) {
  on_threads(1, 3, [&](int rank, Mesh mesh) {
    const Tensor all = mesh.tp.gather_rows(Tensor(1, 2, static_cast<float>(rank)));
    EXPECT_EQ(all.values, (std::vector<float>{0, 0, 1, 1, 2, 2}));
    float x = static_cast<float>(rank == 1 ? 9 : -rank);
    mesh.tp.max({&x, 1});
    EXPECT_EQ(x, 9);
  });
}

TEST(Threads, ReportTheCauseWhenARankFails) {
  const auto body = [](int rank, Mesh mesh) {
    float x = 1;
    mesh.tp.sum({&x, 1}, fp32);
    if (rank == 2) throw std::domain_error("rank 2 is ill");
    mesh.tp.sum({&x, 1}, fp32);
    mesh.tp.sum({&x, 1}, fp32);
  };
  EXPECT_THROW(on_threads(1, 4, body), std::domain_error);
  EXPECT_THROW(on_threads(2, 2, body), std::domain_error);
}

}  // namespace
}  // namespace plumb
