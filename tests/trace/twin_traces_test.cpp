// Do twins that a producer gives as traces judge as plumb's own do, and is nothing accused that they do
// not know?
#include "trace/twin_traces.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/twin_traces.hpp"
#include "trace/report/report.hpp"
#include "trace/structure.hpp"

namespace plumb::twin_traces_test {
namespace {

using TwinTraces = WithTwinTraces;

bool says(const Verdict& v, const std::string& what) {
  return std::ranges::any_of(v.notes,
                             [&](const std::string& note) { return note.find(what) != note.npos; });
}

TEST_F(TwinTraces, JudgeAsPlumbsOwnDo) {
  const Drawn drawn = draw_twins(
      one_, r_, many_, c_, [](const std::string&) { return true; }, options_);
  ASSERT_EQ(drawn.flips, 0U);  // else reference and twins would be others
  options_.together = true;    // as of twins of a producer: a part of the level is for that
  const TwinsJudgement own = conclude(TwinTests(drawn), c_, options_);
  const Verdict given = verdict();
  EXPECT_EQ(given.exit_code(), 0) << text_report(given);
  EXPECT_TRUE(given.findings.empty());
  const std::set<std::string> moved = touched(one_, many_);
  std::size_t compared = 0;
  for (const Line& line : given.lines) {
    if (!moved.contains(line.id) || !line.p) continue;
    EXPECT_EQ(*line.p, own.worst.at(line.id).p) << line.id;
    EXPECT_EQ(line.statistic, own.worst.at(line.id).statistic) << line.id;
    ++compared;
  }
  EXPECT_GT(compared, 200U);
  EXPECT_LT(given.tests, own.tests);  // what nothing splits is a test of plumb's own alone
  EXPECT_EQ(given.vacuous, own.vacuous);
}

// What is wrong in all twins alike would be excused in the candidate.
TEST_F(TwinTraces, ThatLieBesideTheReferenceExcuseNothing) {
  const std::string wrong = "m0/layers.1.attn.proj.weight/wgrad";
  EXPECT_FALSE(verdict().beside);
  for (Trace& twin : twins_) scale(twin.ranks[0].shards.at(wrong).values, 1.5F);
  change(wrong, [](Tensor& x) { scale(x, 1.5F); });
  const Verdict v = verdict();
  EXPECT_EQ(v.exit_code(), 3) << text_report(v);
  EXPECT_TRUE(says(v, "the twins agree with each other and not with the run")) << text_report(v);
  EXPECT_TRUE(says(v, wrong)) << text_report(v);
}

TEST_F(TwinTraces, NameWhatIsLetBeInOneTraceOnly) {
  const std::string lacks = "m0/layers.1.norm2/out";
  for (RankRecord& rank : candidate_.ranks) rank.shards.erase(lacks);
  options_.allow_unmatched = "norm2";
  const Verdict v = verdict();
  EXPECT_EQ(v.exit_code(), 0) << text_report(v);
  EXPECT_TRUE(std::ranges::any_of(v.not_judged, [&](const NotJudged& one) {
    return one.text() == lacks + ": is in the reference alone, as --allow-unmatched lets it be";
  })) << text_report(v);
}

TEST_F(TwinTraces, BlameAFileThatIsNotThereBeforeAllThatIsNotThereWithIt) {
  const std::string file = "rank_00001.safetensors";
  candidate_.ranks[1].shards.clear();
  candidate_.unfit.push_back({file, "structure", infinite, "is not there: rank 1 has no file"});
  const Verdict v = verdict();
  EXPECT_EQ(v.blamed, file) << text_report(v);
  EXPECT_GT(v.findings.size(), 1U);
  EXPECT_FALSE(std::ranges::any_of(v.findings, [](const Finding& f) {
    return f.detail.find("start from different values") != f.detail.npos;
  })) << text_report(v);
}

// -inf, which softmax takes for a score that does not count.
TEST_F(TwinTraces, TakeAMaskForAMask) {
  const float none = -std::numeric_limits<float>::infinity();
  const auto give = [&](Trace& trace, const Tensor& mask) {
    for (RankRecord& rank : trace.ranks) rank.shards["mask"] = {whole(2, 2), mask, fp32};
  };
  Tensor mask(2, 2);
  mask.values[1] = none;
  for (Trace* trace : {&reference_, &candidate_}) give(*trace, mask);
  for (Trace& twin : twins_) give(twin, mask);
  options_.rules = {"flat"};  // also of one that is made
  EXPECT_TRUE(verdict().findings.empty()) << text_report(verdict());
  options_.rules = {"twins"};
  reference_.about["mask"].role = Role::given;
  EXPECT_EQ(verdict().exit_code(), 0) << text_report(verdict());
  Tensor other = mask;
  other.values[0] = 1;
  give(candidate_, other);
  const Verdict another = verdict();  // it is given: the candidate starts from another
  EXPECT_EQ(another.exit_code(), 1) << text_report(another);
  EXPECT_TRUE(std::ranges::any_of(another.findings, [](const Finding& f) {
    return f.id == "mask" && f.detail.starts_with(trace::starts_otherwise);
  })) << text_report(another);
  reference_.about["mask"].role = Role::value;
  EXPECT_NE(refusal().find("as in a mask, mend the candidate's if it is another mask"),
            std::string::npos)
      << refusal();
  reference_.about["mask"].role = Role::given;
  options_.skip = "mask";
  EXPECT_EQ(verdict().exit_code(), 0) << text_report(verdict());
  EXPECT_TRUE(says(verdict(), "not looked at: --only or --skip leaves them out"))
      << text_report(verdict());
  options_.skip = "";
  mask.values[2] = std::numeric_limits<float>::quiet_NaN();
  for (Trace* trace : {&reference_, &candidate_}) give(*trace, mask);
  EXPECT_NE(refusal().find("(1, 0) is not finite"), std::string::npos) << refusal();
  EXPECT_EQ(refusal().find("as in a mask"), std::string::npos) << refusal();
}

TEST_F(TwinTraces, OfWhichNoneIsNearSayThatNoScaleIsSeen) {
  float by = 2;
  for (Trace& twin : twins_) {
    by *= -2;
    for (auto& [id, shard] : twin.ranks[0].shards) {
      if (reference_.about[id].role != Role::given) scale(shard.values, by);
    }
  }
  const std::string text = text_report(verdict());
  EXPECT_NE(text.find("tests): no tensor that is scaled; little can be said of"), std::string::npos)
      << text;
}

bool has_scale(const Verdict& v) {
  return std::ranges::any_of(v.findings, [](const Finding& f) { return f.statistic == "scale"; });
}

// Twins around the candidate, which change places with the reference.
TEST_F(TwinTraces, OfTheCandidateJudgeTheReferenceByIt) {
  for (const float factor : {1.0F, 1.02F}) {
    change("m0/layers.1.attn.proj/out", [&](Tensor& x) { scale(x, factor); });
    const Verdict around_reference = verdict();
    candidate_.about = reference_.about;
    std::swap(reference_, candidate_);
    for (Trace& twin : twins_) twin.manifest.may_differ["twin of"] = "the candidate";
    const Verdict around_candidate = verdict();
    EXPECT_EQ(around_candidate.exit_code(), factor == 1 ? 0 : 1);
    EXPECT_EQ(around_candidate.blamed, around_reference.blamed);
    // The candidate is now the smaller one, though the reference is judged.
    for (const Finding& f : around_candidate.findings) {
      EXPECT_TRUE(f.statistic != "scale" || f.value < 0) << f.detail;
    }
    EXPECT_EQ(has_scale(around_candidate), factor != 1);
    ASSERT_EQ(around_candidate.lines.size(), around_reference.lines.size());
    for (std::size_t i = 0; i < around_candidate.lines.size(); ++i) {
      // As likely, but for the ulps of one run, which the other has not everywhere.
      const auto p = around_candidate.lines[i].p, other = around_reference.lines[i].p;
      ASSERT_EQ(p.has_value(), other.has_value());
      EXPECT_NEAR(p.value_or(1), other.value_or(1), 0.05 * other.value_or(1));
    }
    twins_.back().manifest.may_differ.clear();
    EXPECT_NE(refusal().find("3 twins of 4 are runs of the candidate"), std::string::npos);
    // What its producer says of a tensor is not the candidate's word.
    const Abouts about = candidate_.about;
    for (auto& [id, says] : candidate_.about) says.phase = Phase::optimizer;
    for (Trace& twin : twins_) twin.manifest.may_differ["twin of"] = "the candidate";
    EXPECT_EQ(verdict().exit_code(), factor == 1 ? 0 : 1);
    candidate_.about = about;
    std::swap(reference_, candidate_);
    for (Trace& twin : twins_) twin.manifest.may_differ.clear();
  }
}

// What ranks hold in summands they have rounded, and round in such twins alike: no twin moves it, and all
// that is behind the sum is judged.
TEST_F(TwinTraces, OfTheCandidateJudgeWhatIsBehindSummands) {
  const std::string sum = "m0/layers.0.norm1/out", wrong = "m0/layers.1.mlp.fc2/out";
  candidate_.about = reference_.about;
  std::swap(reference_, candidate_);
  for (Trace& twin : twins_) twin.manifest.may_differ["twin of"] = "the candidate";
  candidate_.ranks.resize(2);
  candidate_.manifest.world_size = 2;
  Shard& first = candidate_.ranks[0].shards.at(sum);
  scale(first.values, 0.5F);
  first.placement.parts = 2;
  Shard second = first;
  second.placement.part = 1;
  candidate_.ranks[1].shards[sum] = second;
  for (RankRecord& rank : reference_.ranks) scale(rank.shards.at(sum).values, 1.02F);
  const Verdict v = verdict();
  EXPECT_EQ(v.exit_code(), 3) << text_report(v);
  EXPECT_EQ(v.unexplained, 1U) << text_report(v);
  EXPECT_EQ(v.farthest.first, sum);
  EXPECT_EQ(v.unjudged, 1U + v.of_optimizer + v.last_bits) << text_report(v);
  for (RankRecord& rank : reference_.ranks) scale(rank.shards.at(wrong).values, 1.5F);
  EXPECT_EQ(verdict().blamed, wrong) << text_report(verdict());
  for (Trace& twin : twins_) twin.manifest.may_differ.clear();
  std::swap(reference_, candidate_);  // twins of a reference in summands, of which nobody knows it
  EXPECT_GT(verdict().unjudged, 100U) << text_report(verdict());
}

TEST_F(TwinTraces, SeeAFactorAndBlameTheFirstInTheOrderOfExecution) {
  const std::string first = "m0/layers.1.attn.proj/out", second = "m0/layers.0.mlp.fc2/grad_in";
  for (const std::string& id : {first, second}) change(id, [](Tensor& x) { scale(x, 1.02F); });
  const Verdict v = verdict();
  EXPECT_EQ(v.exit_code(), 1);
  ASSERT_EQ(v.findings.size(), 2U);
  EXPECT_EQ(v.blamed, first);  // the second by name
  EXPECT_EQ(v.findings.back().id, second);
}

// How many words an expert gets is a choice, which what is wrong upstream may turn.
TEST_F(TwinTraces, BlameAnotherShapeOnlyWhereNothingBeforeItDiffers) {
  const std::string sum = "m0/layers.0.attn.proj/out", shorter = "m0/layers.1.mlp.fc2/out";
  for (RankRecord& rank : candidate_.ranks) {
    Shard& shard = rank.shards.at(shorter);
    const std::size_t rows = c_.values.at(shorter)->rows - 1, cols = c_.values.at(shorter)->cols;
    shard = {whole(rows, cols), Tensor(rows, cols), shard.format};
  }
  const Verdict alone = verdict();
  EXPECT_EQ(alone.blamed, shorter);
  EXPECT_EQ(alone.blamed_by, "structure");
  EXPECT_TRUE(is_wrong_by_itself(alone.findings.front()));
  change(sum, [](Tensor& x) { scale(x, 1.02F); });
  const Verdict behind = verdict();
  EXPECT_EQ(behind.blamed, sum);
  ASSERT_GE(behind.findings.size(), 2U);
  EXPECT_FALSE(is_wrong_by_itself(behind.findings.back()));
  // What lacks is no consequence.
  for (RankRecord& rank : candidate_.ranks) rank.shards.erase("m0/layers.1.norm2/out");
  EXPECT_EQ(verdict().blamed, "m0/layers.1.norm2/out");
}

TEST_F(TwinTraces, FindAnotherSettingWhateverItDoes) {
  const std::string id = "m0/layers.1.norm1/out";
  const auto made = [](double eps) { return MadeBy{"rmsnorm", {"x", "w"}, 0, {{"eps", eps}}}; };
  reference_.about[id].made_by = candidate_.about[id].made_by = made(1e-5);
  EXPECT_EQ(verdict().exit_code(), 0);
  candidate_.about[id].made_by = made(1e-3);
  const Verdict v = verdict();
  EXPECT_EQ(v.exit_code(), 1);
  EXPECT_EQ(v.blamed, id);
  EXPECT_EQ(v.findings.front().detail, "is made with eps = 0.001, the reference's with 1e-05");
}

TEST_F(TwinTraces, SayHowManyChoicesOfTheReferenceFollow) {
  const auto told = [&] {
    return std::ranges::any_of(verdict().notes, [](const std::string& note) {
      return note.starts_with("6 of 1536 choices of the reference follow the candidate");
    });
  };
  EXPECT_FALSE(told());
  reference_.manifest.may_differ["choices that follow the candidate"] = "6 of 1536";
  EXPECT_TRUE(told());
}

TEST_F(TwinTraces, BlameNothingWhereNobodyKnowsTheOrder) {
  for (auto& [id, says] : reference_.about) says.order.reset();
  change("m1/layers.1.attn.proj/out", [](Tensor& x) { scale(x, 1.02F); });
  const Verdict v = verdict();
  EXPECT_EQ(v.exit_code(), 1);
  EXPECT_EQ(v.blamed, "");
}

// The sum that a producer did not know: what no twin moves, and the candidate has otherwise.
TEST_F(TwinTraces, AccuseNothingThatNoTwinMovesNorWhatIsMadeFromIt) {
  const std::string still = "m0/layers.0.norm1/out";
  change(still, [](Tensor& x) { scale(x, 1.02F); });
  change("m0/layers.1.mlp.fc2/out", [](Tensor& x) { scale(x, 1.5F); });
  const Verdict v = verdict();
  EXPECT_TRUE(v.findings.empty()) << v.findings.front().id;
  EXPECT_EQ(v.exit_code(), 3);  // nothing before it could have failed
  EXPECT_GT(v.unjudged, 100U);
  EXPECT_EQ(v.farthest.first, still);
  EXPECT_TRUE(std::ranges::any_of(v.not_judged, [&](const NotJudged& one) {
    return one.text().starts_with(still + ": by 0.02 of its size; differs though no twin moves it");
  }));
  EXPECT_TRUE(std::ranges::none_of(v.lines, [&](const Line& l) { return l.id == still; }));
  EXPECT_NE(
      headline(v).find(fmt::format("; not judged, though different: {} that may follow from these",
                                   v.unjudged - v.unexplained - v.of_optimizer)),
      std::string::npos)
      << headline(v);
}

// A tolerance that was not derived from rounding closes nothing that twins leave open.
TEST_F(TwinTraces, LeaveOpenWhatOnlyARuleThatIsAGuessJudges) {
  const std::string still = "m0/layers.0.norm1/out";
  change(still, [](Tensor& x) { scale(x, 1.02F); });
  options_.rules = {"twins", "flat"};
  const Verdict v = verdict();
  EXPECT_TRUE(v.findings.empty()) << text_report(v);
  EXPECT_EQ(v.exit_code(), 3) << text_report(v);
  EXPECT_EQ(v.farthest.first, still);
}

TEST_F(TwinTraces, NameTheFirstTensorThatNobodyJudgesBesideTheFarthest) {
  const std::string first = "m0/embedding/out", farthest = "m0/layers.0.norm1/out";
  reference_.about["w"].role = Role::given;
  for (const std::string& id : {first, farthest}) reference_.about[id].from = {{"w"}};
  change(first, [](Tensor& x) { scale(x, 1.02F); });
  EXPECT_EQ(headline(verdict()).find("the first is"), std::string::npos);
  change(farthest, [](Tensor& x) { scale(x, 1.5F); });
  const Verdict v = verdict();
  EXPECT_EQ(v.farthest.first, farthest);
  EXPECT_EQ(v.earliest, first);
  EXPECT_NE(headline(v).find("of their size (" + farthest + "; the first is " + first + ")"),
            std::string::npos)
      << headline(v);
}

TEST_F(TwinTraces, JudgeWhatDoesNotComeFromWhatNobodyKnows) {
  change("m0/layers.0.norm1/out", [](Tensor& x) { scale(x, 1.02F); });
  for (const Node& node : one_.nodes) {  // the producer knows from what each was made
    for (const std::string& id : node.outputs) {
      reference_.about[id].from = node.inputs;
      if (node.inputs.front() == "m0/layers.0.norm1/out") reference_.about[id].from = {{"w"}};
    }
  }
  reference_.about["w"].role = Role::given;
  change("m1/layers.1.attn.proj/out", [](Tensor& x) { scale(x, 1.02F); });
  const Verdict v = verdict();
  EXPECT_EQ(v.exit_code(), 1);
  EXPECT_EQ(v.blamed, "m1/layers.1.attn.proj/out");
}

TEST_F(TwinTraces, FindWhatTheUserSaysIsEqual) {
  const std::string still = "m0/layers.0.norm1/out";
  change(still, [](Tensor& x) { x.values[5] = std::nextafter(x.values[5], 1e9F); });
  EXPECT_EQ(verdict().exit_code(), 3);
  options_.exact = "norm1/out$";
  const Verdict v = verdict();
  EXPECT_EQ(v.exit_code(), 1);
  ASSERT_EQ(v.findings.size(), 1U);
  EXPECT_EQ(v.blamed, still);
  EXPECT_NE(v.findings[0].detail.find("--exact"), std::string::npos) << v.findings[0].detail;
}

// Of a mean over its own share a rank has a larger gradient, which is divided by the number of ranks.
TEST_F(TwinTraces, LetAGradientBeOffByTheSmallestNumberOfItsFormat) {
  const std::string id = "m1/more/grad_out";
  const auto give = [&](Trace& trace, const Tensor& x) {
    for (RankRecord& rank : trace.ranks) rank.shards[id] = {whole(1, 2), x, fp16};
  };
  Tensor x(1, 2, 0.5F);
  give(reference_, x);
  for (Trace& twin : twins_) give(twin, x);
  reference_.about[id] = {.order = 1000, .phase = Phase::backward};
  for (const float spacings : {1.0F, 2.0F}) {
    x.values[1] = 0.5F + spacings * 0x1p-24F;
    give(candidate_, x);
    options_.exact = "more/grad_out$";
    EXPECT_EQ(verdict().exit_code(), spacings > 1 ? 1 : 0) << text_report(verdict());
    options_.exact = "";
    EXPECT_EQ(verdict().exit_code(), 3) << text_report(verdict());
  }
  // What is made of it may be off by a rounding, and no more.
  x.values[1] = 0.5F + 0x1p-24F;
  give(candidate_, x);
  const std::string behind = "m1/rest/grad_out";
  const auto give_behind = [&](Trace& trace, float by) {
    Tensor y(1, 2, 0.5F);
    y.values[0] += by;
    for (RankRecord& rank : trace.ranks) rank.shards[behind] = {whole(1, 2), y, fp16};
  };
  reference_.about[behind] = {.order = 1001, .phase = Phase::backward};
  for (Trace& twin : twins_) give_behind(twin, 0);
  give_behind(reference_, 0);
  options_.exact = "(more|rest)/grad_out$";
  for (const auto& [by, code] : {std::pair{0x1p-13F, 3}, {0x1p-9F, 1}}) {
    give_behind(candidate_, by);
    EXPECT_EQ(verdict().exit_code(), code) << text_report(verdict());
  }
}

TEST_F(TwinTraces, OfARunThatLacksUpdatesPassNothing) {
  EXPECT_EQ(verdict().exit_code(), 0);
  for (Trace* run : {&reference_, &candidate_}) {
    run->manifest.may_differ["updates"] = "somebody else makes them";
    const Verdict v = verdict();
    EXPECT_EQ(v.exit_code(), 3);
    EXPECT_NE(headline(v).find("updates of weights are not in the traces"), std::string::npos)
        << headline(v);
    EXPECT_TRUE(says(v, "trace: somebody else makes them")) << text_report(v);
    options_.skip = "^updates$";
    EXPECT_EQ(verdict().exit_code(), 0);
    options_.skip = "";
    run->manifest.may_differ.erase("updates");
  }
}

// Without a promise nothing can be replayed: neither acquitted nor accused.
TEST_F(TwinTraces, LeaveOneRowUnsettled) {
  change("m1/layers.1.mlp.add/out", [](Tensor& x) {
    for (std::size_t j = 0; j < x.cols; ++j) x(3, j) = x(4, j);
  });
  const Verdict v = verdict();
  EXPECT_TRUE(v.findings.empty());
  EXPECT_EQ(v.unsettled.size(), 1U);
  EXPECT_EQ(v.exit_code(), 3);
  EXPECT_NE(headline(v).find("1 tensor differs in one row"), std::string::npos) << headline(v);
}

TEST_F(TwinTraces, FindAnotherStartAndLeaveChoicesUnjudged) {
  const std::string data = "m0/data/ids";
  change(data, [](Tensor& x) { x.values[3] += 1; });
  const Verdict v = verdict();
  EXPECT_EQ(v.exit_code(), 1);
  EXPECT_EQ(v.blamed, data);
  reference_.about[data].role = Role::decision;
  reference_.about[data].order = 1;
  EXPECT_EQ(verdict().exit_code(), 3);
}

TEST_F(TwinTraces, ThatMoveNothingFailNothing) {
  for (Trace& twin : twins_) twin = of_one_rank(reference_.manifest, r_.values, r_);
  EXPECT_EQ(verdict().exit_code(), 3);
}

TEST_F(TwinTraces, ThatAreNoneAreRefused) {
  const std::string id = "m0/layers.0.attn.qkv/out";
  const std::vector<Trace> sound = twins_;
  const auto says = [&](const std::function<void()>& damage, const std::string& what) {
    twins_ = sound;
    damage();
    EXPECT_NE(refusal().find(what), std::string::npos) << refusal();
  };
  const auto shard = [&](std::size_t k) -> Shard& { return twins_[k].ranks[0].shards.at(id); };
  EXPECT_EQ(refusal(), "");
  says([&] { twins_[1].manifest.settings["seed"] = "9"; },
       "have not the same seed (reference 1, twin 2 9)");
  says([&] { twins_[0].manifest.step = 2; }, "have not the same step (reference 1, twin 1 2)");
  says([&] { twins_[0].ranks[0].shards.erase(id); }, "twin 1 lacks '" + id + "'");
  says([&] { shard(2) = {whole(1, 1), Tensor(1, 1), bf16}; }, "twin 3 holds '" + id + "' as 1x1");
  says([&] { shard(2).format = fp16; }, "twin 3 holds '" + id + "' in fp16, the reference in bf16");
  says([&] { shard(1).values.values[0] = NAN; }, "twin 2 is not whole: '" + id + "'");
  says([&] { twins_[1] = twins_[3]; }, "twin 4 is twin 2, bit by bit");
  says([&] { twins_[1] = of_one_rank(reference_.manifest, r_.values, r_); },
       "twin 2 is the reference, bit by bit");
  says([&] { twins_[1] = of_one_rank(reference_.manifest, c_.values, c_); },
       "twin 2 is the candidate, bit by bit");
  says(
      [&] {
        twins_[0].ranks[0].shards["m0/data/ids"] = Shard{whole(32, 1), Tensor(32, 1), fp32};
      },
      "twin 1 starts from another 'm0/data/ids' than the reference");
  says([&] { candidate_.graph = many_; }, "the candidate has a promise (graph.json)");
}

}  // namespace
}  // namespace plumb::twin_traces_test
