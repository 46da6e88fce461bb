// Do the nulls say where healthy statistics lie, and how far sick ones lie beyond?
#include "trace/spreads.hpp"
#include "tests/support/measured.hpp"
#include "tests/support/rooms.hpp"
#include "trace/levels.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace plumb::spreads_test {
namespace {

using tests::healthy;
using tests::twins;

// The chance of so large a statistic of this tensor alone.
double p_of(const Null& null, const Sample& sample) {
  const double upper = student_tail(null.beyond(sample), null.degrees);
  return null.statistic == Statistic::scale ? 2 * upper : upper;
}

TEST(Nulls, HealthyCandidatesRarelyLieFarBeyond) {
  int small = 0, all = 0;
  for (unsigned seed = 1; seed <= 20; ++seed) {
    const std::vector<Measured> run = healthy(seed);
    for (const Null& null : nulls(run, nullptr)) {
      ++all;
      small += p_of(null, run[null.tensor].candidate) < 0.01 ? 1 : 0;
    }
  }
  EXPECT_EQ(all, 20 * 200 * 5);
  EXPECT_LT(small, 2 * all / 100);  // conservative by the cap on degrees, never twice too many
  EXPECT_GT(small, all / 1000);     // and not blind either
}

TEST(Nulls, OfATwinComeFromTheOthersAlone) {
  std::vector<Measured> run = healthy(1);
  const std::vector<Null> before = nulls_without(2, run, nullptr);
  for (Measured& m : run) {
    for (const Statistic s : {Statistic::norm, Statistic::mismatch, Statistic::row}) {
      m.draws[2][static_cast<std::size_t>(s)] *= 1000;
    }
  }
  const std::vector<Null> after = nulls_without(2, run, nullptr);
  ASSERT_EQ(before.size(), after.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(before[i].center, after[i].center);
    EXPECT_EQ(before[i].spread, after[i].spread);
  }
}

// A candidate's norm may differ from what twins foretell; a twin's may not.
TEST(Nulls, GiveTheNormOfACandidateFourPerCent) {
  const std::vector<Measured> run = healthy(1);
  const std::vector<Null> of_candidate = nulls(run, nullptr);
  std::vector<Measured> without = run;
  for (Measured& m : without) m.draws.pop_back();
  const std::vector<Null> of_twin = nulls_without(3, run, nullptr),
                          of_three = nulls(without, nullptr);
  for (std::size_t i = 0; i < of_three.size(); ++i) {
    const double more = of_three[i].statistic == Statistic::norm ? 0.04 : 0;
    EXPECT_DOUBLE_EQ(of_three[i].spread, std::hypot(of_twin[i].spread, more));
  }
}

Learnt learnt_from_batches(int batches) {
  Learnt learnt;
  for (int b = 0; b < batches; ++b) learnt.add(healthy(1000 + static_cast<unsigned>(b), 8));
  return learnt;
}

// The spreads are the true ones, so t is normal: a tail of 12 degrees is a little wide, no more.
TEST(LearntNulls, OfTwoTwinsHoldTheLevel) {
  const Learnt learnt = learnt_from_batches(10);
  int small = 0, all = 0;
  for (unsigned seed = 1; seed <= 20; ++seed) {
    const std::vector<Measured> run = healthy(seed, 2);
    for (const Null& null : nulls(run, &learnt)) {
      EXPECT_TRUE(null.statistic != Statistic::row && null.statistic != Statistic::element);
      ++all;
      small += p_of(null, run[null.tensor].candidate) < 0.01 ? 1 : 0;
    }
  }
  EXPECT_EQ(all, 20 * 200 * 3);  // row and element want four twins
  EXPECT_LT(small, 15 * all / 1000);
  EXPECT_GT(small, 3 * all / 1000);
}

TEST(LearntNulls, SayNothingOfWhatWasNeverLearnt) {
  const Learnt learnt = learnt_from_batches(2);
  std::vector<Measured> run = healthy(3, 2);
  run[5].id = "another";
  for (const Null& null : nulls(run, &learnt)) {
    EXPECT_EQ(null.how, null.tensor == 5 ? Case::undecidable : Case::live);
  }
}

TEST(LearntNulls, NoticesThatTheTwinsScatterMoreThanTheyDid) {
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

TEST(LearntNulls, MicroBatchesOfATensorShareWhatIsLearnt) {
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

// Four twins of a vector may show the same share by luck: 20 of 32 flips after 12, 12, 12, 12 is
// nothing that fair coins would not do.
TEST(Nulls, SharesOfFewElementsScatterAsCoinsDo) {
  Measured m{"v", "v", 3, {}, {1, 20 / 32.0, 0, 1, 1}, 0.01, 1, 32};
  for (int k = 0; k < twins; ++k) m.draws.push_back({1, 12 / 32.0, 0, 1, 1});
  for (const Null& null : nulls({m}, nullptr)) {
    if (null.statistic != Statistic::mismatch) continue;
    EXPECT_EQ(null.how, Case::live);
    EXPECT_GT(p_of(null, m.candidate), 1e-2);
  }
}

TEST(Nulls, OfWhatNothingSplitIsUpstreamOfAreBitwise) {
  Measured m;
  m.touched = false;
  EXPECT_EQ(nulls({m}, nullptr)[0].how, Case::bitwise);
}

TEST(Nulls, OfSilentTwinsBelowASplitDecideNothing) {
  Measured m;
  m.draws.resize(4);
  m.candidate[0] = 1;
  for (const Null& null : nulls({m}, nullptr)) EXPECT_EQ(null.how, Case::undecidable);
}

double& of(Sample& sample, Statistic s) { return sample[static_cast<std::size_t>(s)]; }

// A rare flip moves norm and slope at once; a factor adds to the norm what it adds to the slope.
TEST(Nulls, OfScaleAreInUnitsOfWhatARunShowsBesideItsSlope) {
  const std::vector<Measured> all = healthy(1);
  const double noise = all[0].noise, norm = all[0].norm_of_reference;
  for (const Null& null : nulls(all, nullptr)) {
    if (null.statistic != Statistic::scale || null.tensor != 0) continue;
    Sample factor{};
    for (const double slope : {0.1 * noise, noise, 100 * noise}) {
      of(factor, Statistic::scale) = slope;
      of(factor, Statistic::norm) = norm * std::hypot(noise, slope);
      EXPECT_NEAR(null.beyond(factor), slope / null.spread, 1e-9 * slope / null.spread);
      Sample calm = factor, flipped = factor;
      of(calm, Statistic::norm) = norm * std::hypot(noise / 2, slope);
      EXPECT_NEAR(null.beyond(calm), slope / null.spread, 1e-9 * slope / null.spread);
      of(flipped, Statistic::norm) = norm * std::hypot(5 * noise, slope);
      EXPECT_NEAR(null.beyond(flipped), slope / null.spread / 5, 1e-9 * slope / null.spread);
    }
    of(factor, Statistic::norm) = 0;  // of rounding, where the slope is all there is
    EXPECT_TRUE(std::isfinite(null.beyond(factor)));
  }
}

// Twins are measured as candidates are.
TEST(Nulls, OfATwinThatIsNoisyForItselfGrowNoWider) {
  std::vector<Measured> all = healthy(1);
  const auto spread = [&] {
    for (const Null& null : nulls(all, nullptr)) {
      if (null.statistic == Statistic::scale && null.tensor == 0) return null.spread;
    }
    return 0.0;
  };
  const double before = spread();
  of(all[0].draws[0], Statistic::scale) *= 50;
  EXPECT_GT(spread(), 2 * before);
  of(all[0].draws[0], Statistic::norm) *= 50;
  EXPECT_NEAR(spread(), before, 0.2 * before);
}

TEST(Nulls, RefuseTheScaleOfTensorsThatAreNoise) {
  std::vector<Measured> all = healthy(1);
  all[0].noise = 0.6;
  bool refused = false;
  for (const Null& null : nulls(all, nullptr)) refused = refused || null.how == Case::refused;
  EXPECT_TRUE(refused);
}

}  // namespace
}  // namespace plumb::spreads_test
