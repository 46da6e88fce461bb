// Does a verdict join what its rules say, in dataflow order, and refuse what cannot be compared?
#include "trace/check.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/backend.hpp"
#include "model/run/reference.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/rooms.hpp"
#include "tests/support/runs.hpp"
#include "trace/execute.hpp"
#include "trace/report/report.hpp"
#include "trace/report/tables.hpp"

namespace plumb::check_test {
namespace {

class Verdicts : public testing::Test {
 protected:
  Verdicts() {
    Training run = small_run("llama", "bf16", "tp2");
    const Values leaves = leaves_of_run(run);
    candidate_ = train_step(run, leaves, Joints(), find_backend("reference"));
    run.layout = {};
    reference_ = reference_trace(run, reference(plan(run.config, run.recipe, {}), leaves));
  }

  // In every rank that holds the tensor.
  void change(const std::string& id, const std::function<void(float&)>& how) {
    for (RankRecord& rank : candidate_.ranks) {
      const auto found = rank.shards.find(id);
      if (found == rank.shards.end()) continue;
      for (float& x : found->second.values.values) how(x);
    }
  }
  Verdict by(std::vector<std::string> rules) {
    options_.rules = std::move(rules);
    return check(reference_, candidate_, options_);
  }
  double smallest_by(int twins, double level) {
    CheckOptions once = options_;
    once.second_look = false;
    once.twins = twins;
    once.false_alarm = level;
    return check(reference_, candidate_, once).smallest_scale;
  }

  Trace reference_, candidate_;
  CheckOptions options_;
};

TEST_F(Verdicts, HealthyPassesUnderEveryRuleThatIsNoGuess) {
  for (const char* rule : {"twins", "replay", "flat"}) {
    const Verdict v = by({rule});
    EXPECT_EQ(v.exit_code(), 0) << rule;
    EXPECT_FALSE(v.lines.empty());
  }
}

TEST_F(Verdicts, BlameIsOfReplayAndFindingsStandInDataflowOrder) {
  change("m0/layers.1.attn.proj/out", [](float& x) { x *= 1.5F; });
  const Verdict v = by({"twins", "replay"});
  EXPECT_EQ(v.exit_code(), 1);
  EXPECT_EQ(v.blamed, "m0/layers.1.attn.proj/out");
  EXPECT_EQ(v.blamed_by, "replay");
  ASSERT_GE(v.findings.size(), 2U);  // twins say it too; and what follows was not made from it
  EXPECT_EQ(v.findings.front().id, v.blamed);
}

TEST_F(Verdicts, AValueThatIsNotFiniteIsAFindingUnderEveryRule) {
  const std::string id = "m0/layers.1.mlp.act/out";
  change(id, [](float& x) { x = std::nanf(""); });
  for (const char* rule : {"twins", "replay", "flat", "depth-law", "assert-close"}) {
    const Verdict v = by({rule});
    EXPECT_EQ(v.exit_code(), 1) << rule;
    EXPECT_EQ(v.blamed, id) << rule;
  }
  for (const char* rule : {"flat", "depth-law", "assert-close"}) {  // by itself, too
    const std::vector<Finding> findings = by({rule}).findings;
    EXPECT_TRUE(std::ranges::any_of(findings, [&](const Finding& f) {
      return f.id == id && f.statistic == rule && std::isinf(f.ratio);
    })) << rule;
  }
}

// A step of Adam, right by itself, of a gradient that is wrong and that nobody looks at.
TEST_F(Verdicts, AcquitNoStepByAGradientThatIsNotLookedAt) {
  const std::vector<Node>& nodes = candidate_.graph->nodes;
  const auto adam = std::ranges::find_if(nodes, [](const Node& n) {
    return n.op == "adam" && n.inputs.front().find("norm1") != std::string::npos;
  });
  ASSERT_NE(adam, nodes.end());
  options_.only = "^(" + adam->outputs[0] + "|" + adam->outputs[2] + ")$";
  const Verdict healthy = by({"twins", "replay"});
  EXPECT_EQ(healthy.exit_code(), 0) << text_report(healthy);
  EXPECT_EQ(healthy.lines.size(), 2U);

  const std::string& gradient = adam->inputs[3];
  change(gradient, [](float& x) { x *= -1.5F; });
  const Merged changed = merge(candidate_);
  RealRoundings roundings;
  Call<float> call{{}, adam->attributes, adam->how, roundings};
  for (const std::string& id : adam->inputs) call.inputs.push_back(changed.values.at(id).get());
  const std::vector<Tensor> made = find_operation("adam")->evaluate(call);
  for (RankRecord& rank : candidate_.ranks) {
    for (std::size_t i = 0; i < made.size(); ++i)
      rank.shards.at(adam->outputs[i]).values.values = made[i].values;
  }
  for (const std::vector<std::string>& rules :
       {std::vector<std::string>{"twins", "replay"}, {"replay"}}) {
    const Verdict v = by(rules);
    EXPECT_EQ(v.exit_code(), 3) << text_report(v);
    EXPECT_EQ(v.unexplained, 2U) << text_report(v);
    EXPECT_TRUE(v.lines.empty()) << text_report(v);
  }
  options_.only.clear();
  EXPECT_EQ(by({"replay"}).exit_code(), 1);
}

// At such a level something stands out in many healthy runs. More twins acquit, and say so.
TEST_F(Verdicts, OfHealthyRunsInWhichSomethingStandsOutAreAcquittedByMoreTwins) {
  int accused = 0, taken_back = 0;
  for (int seed = 1; seed <= 16; ++seed) {
    options_.seed = static_cast<std::uint64_t>(seed);
    options_.second_look = false;
    options_.false_alarm = 0.5;
    if (by({"twins", "replay"}).exit_code() != 1) continue;
    ++accused;
    options_.second_look = true;
    options_.false_alarm = 0.5 / looser;
    const Verdict v = by({"twins", "replay"});
    taken_back += v.exit_code() == 0 ? 1 : 0;
    EXPECT_EQ(v.exit_code() == 0, std::ranges::any_of(v.notes, [](const std::string& note) {
                return note.starts_with("by 4 twins ") && note.ends_with("24 twins acquit it");
              }));
  }
  EXPECT_GE(accused, 3);
  EXPECT_GE(taken_back, accused - 1);
}

TEST_F(Verdicts, OfFaultsThatTwinsAloneSeeStandAfterASecondLook) {
  change("m0/layers.1.attn.proj/out", [](float& x) { x *= 1.02F; });
  for (const double level : {0.01, 0.5}) {
    options_.false_alarm = level;
    for (int seed = 1; seed <= effort(6); ++seed) {
      options_.seed = static_cast<std::uint64_t>(seed);
      const Verdict v = by({"twins"});
      EXPECT_EQ(v.exit_code(), 1);
      EXPECT_EQ(v.blamed, "m0/layers.1.attn.proj/out");
      for (const Finding& f : v.findings)
        EXPECT_LT(f.p.value_or(0), level_of_second_look(level)) << seed;
      // What an error has to reach is the larger of what both looks allow.
      EXPECT_GE(v.smallest_scale,
                smallest_by(options_.twins, level_of_first_look(options_.false_alarm)));
    }
  }
}

// What stands out at a first look, and no more, is no finding beside those of replay; power is that of a
// first look all the same.
TEST_F(Verdicts, OfFaultsThatReplaySeesTellTheFindingsOfTheLevel) {
  options_.false_alarm = 0.1;
  change("m0/layers.1.attn.proj/out", [](float& x) { x *= 1.02F; });
  std::size_t loose = 0;
  for (int seed = 1; seed <= 4; ++seed) {
    options_.seed = static_cast<std::uint64_t>(seed);
    const Verdict v = by({"twins", "replay"});
    EXPECT_EQ(v.exit_code(), 1);
    for (const Finding& f : v.findings) EXPECT_LT(f.p.value_or(0), options_.false_alarm) << f.id;
    CheckOptions first = options_;
    first.false_alarm = level_of_first_look(options_.false_alarm);
    first.second_look = false;
    std::swap(options_, first);
    const Verdict looser = by({"twins", "replay"});
    std::swap(options_, first);
    EXPECT_EQ(v.smallest_scale, looser.smallest_scale);
    loose += looser.findings.size() > v.findings.size() ? 1 : 0;
  }
  EXPECT_GE(loose, 1U);
}

// At such a level something healthy is found in many runs, and some of it upstream of the fault.
TEST_F(Verdicts, BlamePassesOverWhatMayBeChanceAndSaysSo) {
  const std::string id = "m0/layers.1.attn.proj/out";
  change(id, [](float& x) { x *= 1.5F; });
  options_.second_look = false;
  options_.false_alarm = 0.5;
  int passed_over = 0;
  for (int seed = 1; seed <= 16; ++seed) {
    options_.seed = static_cast<std::uint64_t>(seed);
    const Verdict v = by({"twins"});
    EXPECT_EQ(v.blamed, id);
    const std::string first = v.findings.front().id;
    passed_over += first != id ? 1 : 0;
    EXPECT_EQ(first != id, std::ranges::any_of(v.notes, [&](const std::string& note) {
                return note.starts_with("upstream of who is blamed " + first + " is found");
              }));
  }
  EXPECT_GE(passed_over, 1);
}

TEST(Looks, AreAtTenTimesTheLevelAndATenthOfItWhereThatIsSmall) {
  EXPECT_DOUBLE_EQ(level_of_first_look(0.001), 0.01);
  EXPECT_DOUBLE_EQ(level_of_second_look(0.001), 0.0001);
  EXPECT_DOUBLE_EQ(level_of_first_look(0.01), 0.1);
  EXPECT_DOUBLE_EQ(level_of_second_look(0.01), 0.001);
  EXPECT_DOUBLE_EQ(level_of_first_look(0.1), 0.5);
  EXPECT_DOUBLE_EQ(level_of_second_look(0.1), 0.1);
  for (const double level : {0.3, 0.5, 0.9}) EXPECT_EQ(level_of_second_look(level), level);
  EXPECT_DOUBLE_EQ(level_of_second_look(0.05), 0.025);
}

// More twins know better how runs scatter: at a hundredth of the first look's level they still allow less.
TEST_F(Verdicts, OfASecondLookAllowNoMoreThanThoseOfTheFirst) {
  options_.rules = {"twins"};
  const double first = smallest_by(options_.twins, level_of_first_look(options_.false_alarm));
  const double second =
      smallest_by(options_.twins * more_twins, level_of_second_look(options_.false_alarm));
  EXPECT_LT(second, first);
  EXPECT_GT(second, first / 2);
}

// Adam's first step makes whole steps of flipped signs, and one number has no spread: rules of size
// would accuse healthy runs there. Replay still judges both.
TEST_F(Verdicts, RulesOfSizeJudgeNeitherSingleNumbersNorTheOptimizer) {
  change("layers.0.norm1.weight/param", [](float& x) { x *= 2; });
  change("loss/out", [](float& x) { x *= 2; });
  for (const char* rule : {"flat", "depth-law", "assert-close"}) {
    for (const Finding& f : by({rule}).findings) {
      EXPECT_NE(f.id, "loss/out") << rule;
      EXPECT_NE(f.id, "layers.0.norm1.weight/param") << rule;
    }
  }
  EXPECT_EQ(by({"replay"}).findings.size(), 2U);
}

// Eigen cuts long sums into blocks: other bits, with nothing split.
// A rule's pass speaks of what the rule judges alone.
TEST_F(Verdicts, SayWhatNoneOfTheirRulesJudges) {
  const std::string id = "layers.1.mlp.fc2.weight/master";
  change(id, [](float& x) { x *= 1.001F; });
  for (const char* rule : {"twins", "flat"}) {
    const Verdict v = by({rule});
    EXPECT_EQ(v.exit_code(), 0) << rule;
    ASSERT_LT(v.judged(), v.lines.size()) << rule;
    const std::string text = headline(v);
    EXPECT_NE(text.find(fmt::format(" in {} tensors", v.judged())), text.npos) << text;
    EXPECT_TRUE(text.ends_with(
        fmt::format("; not judged, though different: {} that none of these rules judges",
                    v.lines.size() - v.judged())))
        << text;
    EXPECT_FALSE(std::ranges::find(v.lines, id, &Line::id)->judged);
    const std::string junit = junit_report({{0, v}});
    EXPECT_NE(junit.find("name=\"" + id + "\"><skipped message=\"none of the rules"), junit.npos);
  }
  const Verdict v = by({"twins", "replay"});
  EXPECT_EQ(v.blamed, id);
  EXPECT_EQ(v.judged(), v.lines.size());
}

// Of a tensor that both rules judge a pass is of rounding, whichever ratio is larger.
TEST_F(Verdicts, CountWhatOnlyARuleThatIsAGuessJudges) {
  const Verdict all = by({"twins", "replay", "flat"});
  EXPECT_EQ(all.exit_code(), 0);
  EXPECT_NE(headline(all).find(fmt::format("in {} tensors", all.lines.size())), std::string::npos)
      << headline(all);
  const std::string both = headline(by({"twins", "flat"}));
  EXPECT_NE(both.find(" that none of these rules judges"), both.npos) << both;
}

TEST_F(Verdicts, AnotherOrderOfSumsIsHealthyWhereTheTraceSaysSo) {
  Training run = small_run("llama", "bf16");
  run.config.hidden = 1024;
  const Values leaves = leaves_of_run(run);
  reference_ = reference_trace(run, reference(plan(run.config, run.recipe, {}), leaves));
  candidate_ = train_step(run, leaves, Joints(), find_backend("eigen"));
  const auto says_so = [](const Verdict& verdict, const std::string& name = "eigen") {
    return std::ranges::any_of(verdict.notes, [&](const std::string& note) {
      return note.starts_with("nobody knows in which order products of '" + name);
    });
  };
  const Verdict known = by({"twins", "replay"});
  EXPECT_EQ(known.exit_code(), 0);
  EXPECT_TRUE(says_so(known));
  candidate_.manifest.settings["any_order"] = "";  // whatever it is called
  const Verdict nameless = by({"twins", "replay"});
  EXPECT_EQ(nameless.exit_code(), 0);
  EXPECT_TRUE(says_so(nameless, "'"));
  candidate_.manifest.settings.erase("any_order");
  const Verdict unknown = by({"twins", "replay"});
  EXPECT_EQ(unknown.exit_code(), 1);
  EXPECT_FALSE(says_so(unknown));
}

TEST_F(Verdicts, OfReplayByChanceAreAtTheLevelOfTheWholeRun) {
  Training run = small_run("llama", "bf16");
  run.config.hidden = 1024;
  candidate_ = train_step(run, leaves_of_run(run), Joints(), find_backend("eigen"));
  reference_ =
      reference_trace(run, reference(plan(run.config, run.recipe, {}), leaves_of_run(run)));
  options_.replay.mode = Mode::probabilistic;
  const auto ratios_at = [&](double level) {
    options_.false_alarm = level;
    double all = 0;
    for (const Line& line : by({"replay"}).lines) all += line.ratio;
    return all;
  };
  EXPECT_LT(ratios_at(1e-9), ratios_at(0.5));  // who seldom accuses has wider tolerances
}

TEST_F(Verdicts, NothingIsJudgedWhereNothingCouldFail) {
  options_.only = "^loss/out$";
  EXPECT_EQ(by({"flat"}).exit_code(), 3);
}

TEST_F(Verdicts, RulesNeedWhatTheyNeed) {
  EXPECT_THROW(by({"luck"}), Failure);
  EXPECT_THROW(by({"perturbation"}), Failure);  // a second reference
  candidate_.graph.reset();
  EXPECT_THROW(by({"twins"}), Failure);
  EXPECT_EQ(by({"flat"}).exit_code(), 0);
  candidate_.manifest.settings["layers"] = "many";  // no promise checks it
  EXPECT_THROW(by({"depth-law"}), Failure);
  for (Trace* trace : {&reference_, &candidate_}) trace->manifest.settings.erase("layers");
  EXPECT_EQ(by({"flat"}).exit_code(), 0);
  EXPECT_THROW(by({"depth-law"}), Failure);
}

}  // namespace
}  // namespace plumb::check_test
