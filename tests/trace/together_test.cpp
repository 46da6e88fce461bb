// Does what scales all gradients alike show in all of them together, and hold its level whatever twins
// and reference share?
#include "trace/together.hpp"

#include <cmath>
#include <random>

#include "tests/support/effort.hpp"
#include "tests/support/twin_traces.hpp"
#include "trace/levels.hpp"
#include "trace/report/report.hpp"

namespace plumb::together_test {
namespace {

// Of a gradient that is (1 + scale) of the reference's.
Sample of_scale(double scale, double norm_of_reference) {
  Sample sample{};
  sample[static_cast<std::size_t>(Statistic::scale)] = scale;
  sample[static_cast<std::size_t>(Statistic::norm)] = std::fabs(scale) * norm_of_reference;
  return sample;
}

Measured gradient(const std::string& id, double norm, const std::vector<double>& draws,
                  double scale) {
  Measured m;
  m.id = id;
  m.norm_of_reference = norm;
  for (const double s : draws) m.draws.push_back(of_scale(s, norm));
  m.candidate = of_scale(scale, norm);
  return m;
}

// `shared`: how far the reference lies from what all of them lie about, in their own spreads.
double rate_below(double chance, double shared, int runs) {
  std::mt19937 random(5);
  std::normal_distribution<double> normal;
  int below = 0;
  for (int run = 0; run < runs; ++run) {
    std::vector<Measured> all;
    for (const double norm : {1.0, 3.0, 0.2}) {
      const double off = shared * normal(random);
      std::vector<double> draws;
      for (int k = 0; k < 4; ++k) draws.push_back(1e-4 * (normal(random) - off));
      all.push_back(gradient("x/grad", norm, draws, 1e-4 * (normal(random) - off)));
    }
    below += gradients_together(all, chance)->p < chance ? 1 : 0;
  }
  return static_cast<double>(below) / runs;
}

TEST(Together, HoldsItsLevelWhateverTheReferenceShares) {
  const int runs = effort(20000);
  for (const double chance : {0.1, 0.01}) {
    const double most = chance + 3 * std::sqrt(chance / runs);
    EXPECT_LE(rate_below(chance, 0, runs), most);
    EXPECT_LE(rate_below(chance, 1, runs), most);
    EXPECT_LE(rate_below(chance, 3, runs), most);
    EXPECT_GE(rate_below(chance, 0, runs), chance / 3);  // and gives away no more than it must
    EXPECT_GE(rate_below(chance, 1, runs), chance / 3);
  }
}

TEST(CommonSlope, IsThatOfMostAndTheOthersAreTold) {
  const std::vector<double> draws{1e-4, -2e-4, 1e-4, 1e-4};
  std::vector<Measured> all{gradient("a/grad", 1, draws, -0.12), gradient("b/grad", 1, draws, 0.76),
                            gradient("c/grad", 1, draws, -0.121),
                            gradient("d/grad", 1, draws, -0.119), gradient("e/grad", 1, draws, 0)};
  const std::set<std::string> found{"a/grad", "b/grad", "c/grad", "d/grad"};
  const auto common = common_slope(all, found);
  ASSERT_TRUE(common);
  EXPECT_EQ(common->slope, -0.119);
  EXPECT_EQ(common->near, 3U);
  EXPECT_EQ(common->found, 4U);
  EXPECT_EQ(common->others, std::vector<std::string>{"b/grad"});
  EXPECT_EQ(
      in_words(*common),
      "3 of 4 gradients that are found differ by one slope, -0.12: something multiplied all of "
      "them, as a clip does where others are wrong (plumb.gradients() before it tells which). "
      "By another: b/grad");
  EXPECT_FALSE(common_slope(all, {"a/grad", "c/grad"}));            // too few
  EXPECT_FALSE(common_slope(all, {"a/grad", "b/grad", "e/grad"}));  // of one slope only one
  all.push_back(gradient("a/clipped_grad", 1, draws, 0));  // then no clip made the others wrong
  EXPECT_EQ(
      in_words(*common_slope(all, found)),
      "3 of 4 gradients that are found differ by one slope, -0.12: something multiplied all of "
      "them. By another: b/grad");
}

TEST(Together, IsTheLengthOfOneVector) {
  const std::vector<double> draws{1e-4, -2e-4, 1e-4, 1e-4};
  const auto seen = gradients_together(
      {gradient("small/grad", 1, draws, 4e-3), gradient("large/grad", 3, draws, -1e-3),
       gradient("m0/head/grad_out", 9, draws, 1), gradient("x/exp_avg", 9, draws, 1)},
      1e-3);
  ASSERT_TRUE(seen);
  EXPECT_NEAR(seen->longer, std::sqrt((1.004 * 1.004 + 9 * 0.999 * 0.999) / 10) - 1, 1e-15);
  EXPECT_EQ(seen->largest, "large/grad");
}

TEST(Together, AllowsWhatHasTheChanceThatIsAskedFor) {
  const std::vector<double> draws{1e-4, -2e-4, 1.5e-4, 3e-4};
  const double allowed = gradients_together({gradient("x/grad", 2, draws, 0)}, 1e-3)->allowed;
  for (const double sign : {1.0, -1.0}) {
    EXPECT_LT(gradients_together({gradient("x/grad", 2, draws, sign * allowed * 1.001)}, 1e-3)->p,
              1e-3);
  }
  EXPECT_GT(gradients_together({gradient("x/grad", 2, draws, allowed * 0.999)}, 1e-3)->p, 1e-3);
}

TEST(Together, SaysNothingWhereTwinsDoNotMoveThem) {
  EXPECT_FALSE(gradients_together({}, 1e-3));
  EXPECT_FALSE(gradients_together({gradient("x/grad", 2, {}, 1e-3)}, 1e-3));
  EXPECT_FALSE(gradients_together({gradient("x/grad", 2, {0, 0, 1e-4, 1e-4}, 1e-3)}, 1e-3));
  // Part of the vector is still.
  const auto seen = gradients_together(
      {gradient("still/grad", 1, {}, 0), gradient("x/grad", 1, {1e-4, -1e-4, 1e-4, 2e-4}, 1e-3)},
      1e-3);
  ASSERT_TRUE(seen);
  EXPECT_NEAR(seen->longer, std::sqrt((1 + 1.001 * 1.001) / 2) - 1, 1e-15);
}

class GradientsTogether : public WithTwinTraces {
 protected:
  void scale_all(float by) {
    for (RankRecord& rank : candidate_.ranks) {
      for (auto& [id, shard] : rank.shards) {
        if (id.ends_with("/main_grad")) scale(shard.values, by);
      }
    }
  }
  static bool says(const Verdict& v, const std::string& words) {
    const auto has = [&](const std::string& text) { return text.find(words) != std::string::npos; };
    return std::ranges::any_of(v.notes, has) ||
           std::ranges::any_of(v.findings, [&](const Finding& f) { return has(f.detail); });
  }
};

TEST_F(GradientsTogether, AreToldOfAHealthyRun) {
  const Verdict v = verdict();
  EXPECT_EQ(v.exit_code(), 0) << text_report(v);
  EXPECT_TRUE(says(v, "would be found")) << text_report(v);
}

TEST_F(GradientsTogether, ShowAFactorThatNoneOfThemShows) {
  options_.skip = "^head\\.";  // most of the vector, of a model as small as this
  scale_all(1.0013F);
  Verdict v = verdict();
  EXPECT_EQ(v.exit_code(), 1) << text_report(v);
  ASSERT_EQ(v.findings.size(), 1U) << text_report(v);
  EXPECT_FALSE(says(v, "would be found"));
  EXPECT_TRUE(says(v, "the norm of all gradients is 1 + 0.001")) << text_report(v);
  EXPECT_TRUE(v.findings.front().id.ends_with("/main_grad"));
  EXPECT_LT(*v.findings.front().p, 1e-3);
  options_.false_alarm = 1e-9;
  EXPECT_TRUE(verdict().findings.empty());
}

TEST_F(GradientsTogether, AreNotToldWhereOneStandsOut) {
  scale_all(1.5F);
  const Verdict v = verdict();
  EXPECT_GT(v.findings.size(), 1U);
  EXPECT_FALSE(says(v, "the norm of all gradients")) << text_report(v);
}

}  // namespace
}  // namespace plumb::together_test
