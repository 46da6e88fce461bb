// Are collectives what they say, in rank order, and does a failing rank free the others?
#include <gtest/gtest.h>

#include "tests/support/rooms.hpp"
#include "world/world.hpp"

namespace plumb::threads_test {
namespace {

// One group of everybody; or rows and columns of a 2 x 2 square.
const std::vector<Division> together{[](int) { return 0; }};
const std::vector<Division> square{[](int rank) { return rank / 2; },
                                   [](int rank) { return rank % 2; }};

TEST(Threads, SumInRankOrderRoundingEveryPartAndRunningSum) {
  std::vector<float> sums(4);
  threads().run(4, together, [&](int rank, Groups& groups) {
    // In BF16 256 + 1 + 1 + 1 is 256 from the left; from the right it would be 260.
    float x = rank == 0 ? 256.0F : 1.0F;
    groups[0]->sum({&x, 1}, bf16);
    sums[static_cast<std::size_t>(rank)] = x;
  });
  for (const float sum : sums) EXPECT_EQ(sum, 256.0F);
}

TEST(Threads, GroupsAreSeparate) {
  std::vector<float> rows(4, 0), columns(4, 0);
  threads().run(4, square, [&](int rank, Groups& groups) {
    float a = static_cast<float>(rank), b = static_cast<float>(rank);
    groups[0]->sum({&a, 1}, fp32);
    groups[1]->sum({&b, 1}, fp32);
    rows[static_cast<std::size_t>(rank)] = a;
    columns[static_cast<std::size_t>(rank)] = b;
  });
  EXPECT_EQ(rows, (std::vector<float>{1, 1, 5, 5}));
  EXPECT_EQ(columns, (std::vector<float>{2, 4, 2, 4}));
}

TEST(Threads, GatherExchangeAndMax) {
  threads().run(3, together, [&](int rank, Groups& groups) {
    const auto number = static_cast<float>(rank);
    const Tensor all = groups[0]->gather_rows(Tensor(1, 2, number));
    EXPECT_EQ(all.values, (Tensor::Numbers{0, 0, 1, 1, 2, 2}));
    float x = static_cast<float>(rank == 1 ? 9 : -rank);
    groups[0]->max({&x, 1});
    EXPECT_EQ(x, 9);
    std::vector<Tensor> letters;  // rank r writes 10 r + s to rank s, s + 1 times
    for (std::size_t s = 0; s < 3; ++s) {
      letters.emplace_back(s + 1, 1, 10 * number + static_cast<float>(s));
    }
    const std::vector<Tensor> got = groups[0]->exchange(letters);
    ASSERT_EQ(got.size(), 3U);
    for (std::size_t r = 0; r < 3; ++r) {
      EXPECT_EQ(got[r],
                Tensor(static_cast<std::size_t>(rank) + 1, 1, 10 * static_cast<float>(r) + number));
    }
  });
}

TEST(Threads, LettersOfATagArriveInTheirOrder) {
  threads().run(2, together, [&](int rank, Groups& groups) {
    if (rank == 0) {
      for (const float x : {1.0F, 2.0F}) groups[0]->send(1, 7, Tensor(1, 1, x));
      groups[0]->send(1, 8, Tensor(2, 1, 3.0F));
      return;
    }
    EXPECT_EQ(groups[0]->receive(0, 8), Tensor(2, 1, 3.0F));
    EXPECT_EQ(groups[0]->receive(0, 7), Tensor(1, 1, 1.0F));
    EXPECT_EQ(groups[0]->receive(0, 7), Tensor(1, 1, 2.0F));
  });
}

TEST(Threads, SayWhetherALetterHasArrived) {
  threads().run(2, together, [&](int rank, Groups& groups) {
    double meet = 0;
    EXPECT_FALSE(groups[0]->has_arrived(1 - rank, 3));
    groups[0]->sum(meet);
    if (rank == 0) groups[0]->send(1, 3, Tensor(1, 1));
    groups[0]->sum(meet);
    EXPECT_EQ(groups[0]->has_arrived(1 - rank, 3), rank == 1);
    EXPECT_FALSE(groups[0]->has_arrived(1 - rank, 4));
    if (rank == 1) groups[0]->receive(0, 3);
    EXPECT_FALSE(groups[0]->has_arrived(1 - rank, 3));
  });
}

TEST(Threads, ReportTheCauseWhenARankFails) {
  const auto body = [](int rank, Groups& groups) {
    float x = 1;
    groups[0]->sum({&x, 1}, fp32);
    if (rank == 2) throw std::domain_error("rank 2 is ill");
    if (rank == 3) groups[0]->receive(groups[0]->rank() == 3 ? 2 : 0, 1);
    groups[0]->sum({&x, 1}, fp32);
    groups[0]->sum({&x, 1}, fp32);
  };
  EXPECT_THROW(threads().run(4, together, body), std::domain_error);
  EXPECT_THROW(threads().run(4, square, body), std::domain_error);
}

}  // namespace
}  // namespace plumb::threads_test
