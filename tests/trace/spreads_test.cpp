// Are p-values of healthy candidates uniform enough, and small for sick ones?
#include "trace/spreads.hpp"
#include "tests/support/rooms.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace plumb {
namespace {

constexpr int twins = 4;

// Tensors of 20 kinds whose statistics scatter log-normally; scale is normal with the noise as
// size.
std::vector<Measured> healthy(unsigned seed, int draws = twins) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::vector<Measured> all;
  for (int i = 0; i < 200; ++i) {
    Measured m;
    m.id = std::to_string(i);
    m.kind = std::to_string(i % 20);
    m.group = i % 4;
    m.noise = 0.01;
    m.norm_of_reference = 100;
    m.elements = 1e6;
    const double spread = 0.05 + 0.01 * (i % 20);
    const auto draw = [&] {
      Sample s{};
      for (std::size_t k = 0; k < s.size(); ++k) s[k] = std::exp(spread * normal(random));
      s[static_cast<std::size_t>(Statistic::scale)] = 0.01 * 0.1 * normal(random);
      return s;
    };
    for (int k = 0; k < draws; ++k) m.draws.push_back(draw());
    m.candidate = draw();
    all.push_back(m);
  }
  return all;
}

TEST(Judge, HealthyCandidatesAreRarelyImprobable) {
  int small = 0, all = 0;
  for (unsigned seed = 1; seed <= 20; ++seed) {
    for (const Judged& j : judge(healthy(seed))) {
      ++all;
      small += j.p < 0.01 ? 1 : 0;
    }
  }
  EXPECT_EQ(all, 20 * 200 * 5);
  EXPECT_LT(small, 2 * all / 100);  // conservative by the cap on degrees, never twice too many
  EXPECT_GT(small, all / 1000);     // and not blind either
}

Learnt learnt_from_batches(int batches) {
  Learnt learnt;
  for (int b = 0; b < batches; ++b) learnt.add(healthy(1000 + static_cast<unsigned>(b), 8));
  return learnt;
}

// The spreads are the true ones, so t is normal: a tail of 12 degrees is a little wide, no more.
TEST(JudgeByLearnt, TwoTwinsJudgeHealthyCandidatesAtTheLevelAsked) {
  const Learnt learnt = learnt_from_batches(10);
  int small = 0, all = 0;
  for (unsigned seed = 1; seed <= 20; ++seed) {
    for (const Judged& j : judge(healthy(seed, 2), &learnt)) {
      EXPECT_TRUE(j.statistic != Statistic::row && j.statistic != Statistic::element);
      ++all;
      small += j.p < 0.01 ? 1 : 0;
    }
  }
  EXPECT_EQ(all, 20 * 200 * 3);  // row and element want four twins
  EXPECT_LT(small, 15 * all / 1000);
  EXPECT_GT(small, 3 * all / 1000);
}

TEST(JudgeByLearnt, ThresholdsAreLowerThanThoseOfTwoTwinsAlone) {
  const Learnt learnt = learnt_from_batches(10);
  const std::vector<Measured> all = healthy(3, 2);
  const auto alone = judge(all), with = judge(all, &learnt);
  for (std::size_t i = 0; i < 200; ++i) {  // norms
    EXPECT_LT(with[i].threshold(1e-6), alone[i].threshold(1e-6));
  }
}

TEST(JudgeByLearnt, NoticesThatTheTwinsScatterMoreThanTheyDid) {
  const Learnt learnt = learnt_from_batches(10);
  for (const int draws : {2, 4, 8}) {
    std::vector<Measured> now = healthy(77, draws);
    EXPECT_NEAR(moved_on(now, learnt), 1, 0.45) << draws;
    for (Measured& m : now) {
      for (Sample& s : m.draws) s[0] = std::pow(s[0], 2);  // twice the scatter of its logarithm
    }
    EXPECT_NEAR(moved_on(now, learnt), 4, 1.8) << draws;
  }
}

TEST(JudgeByLearnt, MicroBatchesOfATensorShareWhatIsLearnt) {
  std::vector<Measured> batch = healthy(5, 8);
  batch.resize(1);
  batch[0].id = "m0/layers.1.norm/out";
  Learnt learnt;
  learnt.add(batch);
  const auto known = learnt.variance("m12/layers.1.norm/out", Statistic::norm);
  ASSERT_TRUE(known.has_value());
  EXPECT_EQ(*known, *learnt.variance("layers.1.norm/out", Statistic::norm));
  EXPECT_FALSE(learnt.variance("m0/layers.2.norm/out", Statistic::norm));
}

TEST(Judge, ALargeStatisticIsImprobableAndItsThresholdIsWhereTheLevelSays) {
  std::vector<Measured> all = healthy(1);
  all[3].candidate[0] = std::exp(3.0);
  for (const Judged& j : judge(all)) {
    if (j.tensor != 3 || j.statistic != Statistic::norm) continue;
    EXPECT_LT(j.p, 1e-4);
    Sample at_threshold = all[3].candidate;
    at_threshold[0] = j.threshold(1e-3);
    EXPECT_NEAR(j.p_of(at_threshold), 1e-3, 1e-9);
  }
}

// Four twins of a vector may show the same share by luck: 20 of 32 flips after 12, 12, 12, 12 is
// nothing that fair coins would not do.
TEST(Judge, SharesOfFewElementsScatterAsCoinsDo) {
  Measured m{"v", "v", 3, {}, {1, 20 / 32.0, 0, 1, 1}, 0.01, 1, 32};
  for (int k = 0; k < twins; ++k) m.draws.push_back({1, 12 / 32.0, 0, 1, 1});
  for (const Judged& j : judge({m})) {
    if (j.statistic != Statistic::mismatch) continue;
    EXPECT_EQ(j.how, Case::live);
    EXPECT_GT(j.p, 1e-2);
  }
}

TEST(Judge, WhereNothingIsSplitOneBitIsAFinding) {
  Measured m;
  m.touched = false;
  m.candidate[0] = 1e-20;
  EXPECT_EQ(judge({m})[0].how, Case::bitwise);
  EXPECT_EQ(judge({m})[0].p, 0);
  m.candidate[0] = 0;
  EXPECT_EQ(judge({m})[0].p, 1);
}

TEST(Judge, SilentTwinsBelowASplitDecideNothing) {
  Measured m;
  m.draws.resize(4);
  m.candidate[0] = 1;
  for (const Judged& j : judge({m})) EXPECT_EQ(j.how, Case::undecidable);
}

TEST(Judge, ScaleIsRefusedOfTensorsThatAreNoise) {
  std::vector<Measured> all = healthy(1);
  all[0].noise = 0.6;
  for (const Judged& j : judge(all)) {
    if (j.tensor == 0 && j.statistic == Statistic::scale) {
      EXPECT_EQ(j.how, Case::refused);
    }
  }
}

}  // namespace
}  // namespace plumb
