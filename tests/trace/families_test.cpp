// Are healthy runs accused as often as the level says, however their tensors hang together, and are
// sick ones?
#include "trace/families.hpp"
#include "number/outcome.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/measured.hpp"
#include "tests/support/rooms.hpp"
#include "trace/levels.hpp"
#include "trace/twins.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace plumb::families_test {
namespace {

using tests::healthy;
using tests::healthy_run;
using tests::twins;

bool stands_out(const std::vector<Measured>& run, double level) {
  const Tests tests(run, nullptr);
  return std::ranges::any_of(tests.nulls(), [&](const Null& null) {
    return tests.chance(null, run[null.tensor].candidate) < level;
  });
}

// With many twins by two looks, as a check does; with four by one.
bool accused(const std::vector<Measured>& run, double level) {
  if (run.front().draws.size() == twins) return stands_out(run, level);
  std::vector<Measured> first = run;
  for (Measured& m : first) m.draws.resize(twins);
  return stands_out(first, level_of_first_look(level)) &&
         stands_out(run, level_of_second_look(level));
}

// At most what 99 of 100 samples of a true rate have, and more than a sixth of the rate.
void expect_rate(int hits, int runs, double rate, const char* what) {
  const auto n = static_cast<std::size_t>(runs), k = static_cast<std::size_t>(hits);
  EXPECT_GT(binomial_tail(k, n, rate), 0.01) << what << ": " << hits << " of " << runs;
  EXPECT_GT(6 * binomial_interval(k, n, 0.99).high, rate) << what << ": " << hits;
}

template <class Run>
void expect_levels(const char* what, Run&& run_of) {
  const int runs = effort(200);
  int at_tenth = 0, at_hundredth = 0;
  for (unsigned seed = 1; seed <= static_cast<unsigned>(runs); ++seed) {
    const std::vector<Measured> run = run_of(seed);
    at_tenth += accused(run, 0.1) ? 1 : 0;
    at_hundredth += accused(run, 0.01) ? 1 : 0;
  }
  expect_rate(at_tenth, runs, 0.1, what);
  expect_rate(at_hundredth, runs, 0.01, what);
  EXPECT_GE(100 * at_tenth, runs) << what;  // not blind
}

TEST(FamiliesOfHealthyRuns, HoldTheLevelWhereTensorsAreUnrelated) {
  expect_levels("unrelated", [](unsigned seed) { return healthy(seed); });
}

// Half of each tensor's variance is one number for the whole twin.
TEST(FamiliesOfHealthyRuns, HoldTheLevelWhereOneRoundingMovesAll) {
  expect_levels("related", [](unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    std::vector<double> common;
    for (int k = 0; k <= twins; ++k) common.push_back(normal(random));
    return healthy_run([&](int, int k) {
      return std::sqrt(0.5) * (normal(random) + common[static_cast<std::size_t>(k)]);
    });
  });
}

// There four twins accuse 2.5 times too often at 0.01 (1,500 runs), as 24 do; a check looks twice.
TEST(FamiliesOfHealthyRuns, HoldTheLevelInTwoLooksWhereTailsAreHeavy) {
  expect_levels("heavy", [](unsigned seed) {
    std::mt19937 random(seed);
    std::student_t_distribution<double> heavy(5);
    return healthy_run([&](int, int) { return heavy(random); }, twins * more_twins);
  });
}

// A threshold that knows how tensors hang together: thirty copies of all tensors are as many tests
// more, and no more chances. (Of unrelated tests it would be that of a level 30 times as small.)
TEST(Tests, CopiesOfATensorCostNothing) {
  double ratios = 0;
  for (unsigned seed = 1; seed <= 10; ++seed) {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    const std::vector<Measured> once =
        healthy_run([&](int, int) { return normal(random); }, twins, 40);
    std::vector<Measured> copies;
    for (int copy = 0; copy < 30; ++copy) copies.insert(copies.end(), once.begin(), once.end());
    const Tests few(once, nullptr), many(copies, nullptr);
    EXPECT_EQ(many.count(), 30 * few.count());
    const Null &a = few.nulls().front(), &b = many.nulls().front();
    ratios +=
        std::log(TestsAt(many, 0.01).threshold(b)) / std::log(TestsAt(few, 0.01).threshold(a));
  }
  EXPECT_NEAR(ratios / 10, 1, 0.1);
}

// One rounding is in norm, mismatch, row and element at once. Four families that say the same are one, and
// slopes a second: by their number fewer than 40 of 100 would be accused at 0.5.
TEST(Tests, FamiliesThatSayTheSameCostNothing) {
  const int runs = effort(400);
  int accused_at_half = 0;
  for (unsigned seed = 1; seed <= static_cast<unsigned>(runs); ++seed) {
    std::vector<Measured> run = healthy(seed);
    for (Measured& m : run) {
      const auto same = [](Sample& s) {
        for (const Statistic other : {Statistic::mismatch, Statistic::row, Statistic::element})
          s[static_cast<std::size_t>(other)] = s[static_cast<std::size_t>(Statistic::norm)];
      };
      for (Sample& draw : m.draws) same(draw);
      same(m.candidate);
    }
    accused_at_half += accused(run, 0.5) ? 1 : 0;
  }
  const auto rates = binomial_interval(static_cast<std::size_t>(accused_at_half),
                                       static_cast<std::size_t>(runs), 0.99);
  EXPECT_LT(rates.low, 0.5) << accused_at_half;
  EXPECT_GT(rates.high, 0.4) << accused_at_half;
}

TEST(Tests, MoreTwinsSeeSmallerFaults) {
  double four = 0, twelve = 0;
  for (unsigned seed = 1; seed <= 10; ++seed) {
    for (const auto& [draws, sum] : {std::pair{4, &four}, std::pair{12, &twelve}}) {
      const std::vector<Measured> run = healthy(seed, draws);
      const Tests tests(run, nullptr);
      for (const Null& null : tests.nulls()) {
        if (null.statistic == Statistic::scale) *sum += TestsAt(tests, 0.01).threshold(null);
      }
    }
  }
  EXPECT_LT(twelve, 0.95 * four);
}

TEST(Tests, ALargeStatisticIsImprobableAndItsThresholdIsWhereTheLevelSays) {
  std::vector<Measured> run = healthy(1);
  run[3].candidate[0] = std::exp(3.0);
  const Tests tests(run, nullptr);
  int seen = 0;
  for (const Null& null : tests.nulls()) {
    if (null.tensor != 3 || null.statistic == Statistic::scale) continue;
    ++seen;
    Sample at_threshold = run[3].candidate;
    at_threshold[static_cast<std::size_t>(null.statistic)] = TestsAt(tests, 1e-3).threshold(null);
    EXPECT_NEAR(tests.chance(null, at_threshold), 1e-3, 1e-9);
    EXPECT_NEAR(TestsAt(tests, 1e-3).standing(null, at_threshold), 1, 1e-9);
    if (null.statistic == Statistic::norm) {
      EXPECT_LT(tests.chance(null, run[3].candidate), 1e-3);
    }
  }
  EXPECT_EQ(seen, 4);
}

TEST(Tests, WhereNothingIsSplitOneBitIsAFinding) {
  Measured m;
  m.touched = false;
  m.candidate[0] = 1e-20;
  const Tests tests({m}, nullptr);
  const Null& norm = tests.nulls().front();
  EXPECT_EQ(tests.chance(norm, m.candidate), 0);
  EXPECT_EQ(tests.chance(norm, Sample{}), 1);
  EXPECT_EQ(TestsAt(tests, 0.01).threshold(norm), 0);
}

TEST(Tests, WhatCannotBeDecidedIsNeverImprobable) {
  Measured m;
  m.draws.resize(4);
  m.candidate[0] = 1;
  const Tests tests({m}, nullptr);
  EXPECT_EQ(tests.count(), 0U);
  for (const Null& null : tests.nulls()) EXPECT_EQ(tests.chance(null, m.candidate), 1);
}

TEST(Tests, OfTwoTwinsNeedStoredSpreads) {
  try {
    const Tests tests(healthy(1, 2), nullptr);
    FAIL() << "two twins were enough";
  } catch (const Failure& e) {
    EXPECT_NE(std::string(e.what()).find("--spreads"), std::string::npos) << e.what();
  }
  Learnt learnt;
  for (unsigned batch = 0; batch < 10; ++batch) learnt.add(healthy(1000 + batch, 8));
  int hits = 0;
  for (unsigned seed = 1; seed <= 200; ++seed) {
    const std::vector<Measured> run = healthy(seed, 2);
    const Tests tests(run, &learnt);
    hits += std::ranges::any_of(tests.nulls(), [&](const Null& null) {
      return tests.chance(null, run[null.tensor].candidate) < 0.1;
    });
  }
  expect_rate(hits, 200, 0.1, "learnt");
}

// chance() and limit() are each other's inverse; with no test at all in the twins a family is one.
TEST(FamilyOfTests, IsThePredictiveLawOfTheTwinsLargest) {
  const FamilyOfTests one({6, 1}, false, {-10, -10, -10, -10});
  EXPECT_NEAR(one.chance(one.limit(0.03)), 0.03, 1e-12);
  EXPECT_NEAR(one.chance(3) / student_tail(3, 6), 1, 0.03);  // a single test, nearly known
  // By hand: q of the twins is 0.1 each, of the candidate 0.05.
  const double t = student_quantile(-std::expm1(-0.1), 6),
               c = student_quantile(-std::expm1(-0.05), 6);
  const FamilyOfTests four({6, 1}, false, {t, t, t, t});
  EXPECT_NEAR(four.chance(c), 1 - std::pow(1 + 0.05 / 0.4, -4), 1e-9);
  const FamilyOfTests both({6, 2}, true, {2 * t, 2 * t});
  EXPECT_NEAR(both.chance(both.limit(0.2)), 0.2, 1e-12);
}

TEST(Fitted, TailsAreThoseOfTheSample) {
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  std::student_t_distribution<double> heavy(3);
  std::vector<double> light_t, heavy_t;
  for (int i = 0; i < 4000; ++i) {
    light_t.push_back(0.7 * normal(random));
    heavy_t.push_back(0.7 * heavy(random));
  }
  EXPECT_EQ(fitted(light_t, 40, true).degrees, 40);
  EXPECT_NEAR(fitted(light_t, 40, true).core, 0.7, 0.03);
  EXPECT_NEAR(fitted(heavy_t, 40, true).degrees, 3, 0.51);
  EXPECT_NEAR(fitted(heavy_t, 40, true).core, 0.7, 0.05);
  EXPECT_EQ(fitted(heavy_t, 40, false).core, 1);
  EXPECT_EQ(fitted({1, 2, 50}, 5, true).degrees, 5);  // too few to say anything
}

}  // namespace
}  // namespace plumb::families_test
