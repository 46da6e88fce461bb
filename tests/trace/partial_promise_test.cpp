// Is what producers say of single tensors replayed as a whole promise would be, does it settle what
// twins leave open, and does a wrong word accuse nobody?
#include "trace/partial_promise.hpp"

#include <cmath>

#include "number/rounding.hpp"
#include "tests/support/twin_traces.hpp"
#include "trace/report/report.hpp"
#include "trace/settle.hpp"

namespace plumb::partial_promise_test {
namespace {

bool all(const std::string&) { return true; }

class PartialPromises : public WithTwinTraces {
 protected:
  PartialPromises() {
    tell(one_, reference_);
    tell(many_, candidate_);
    options_.rules = {"twins", "replay"};
  }

  // As the producer of a run with this promise would.
  static void tell(const Graph& promise, Trace& trace) {
    for (const Node& node : promise.nodes) {
      for (std::size_t i = 0; i < node.outputs.size(); ++i) {
        MadeBy made{node.op, node.inputs, i, node.attributes};
        made.parts = node.how.parts;
        if (made.parts > 1) made.wire = node.how.wire;
        trace.about[node.outputs[i]].made_by = made;
      }
    }
  }
  MadeBy& said(Trace& trace, const std::string& id) { return *trace.about.at(id).made_by; }

  Replayed replayed() {
    const trace::Run r(reference_), c(candidate_);
    return PartialPromise({r, reference_.about}, {c, candidate_.about}).replayed(all, {}, Hands{2});
  }
  static bool any_starts_with(const std::vector<std::string>& all, const std::string& with) {
    return std::ranges::any_of(all, [&](const auto& one) { return one.starts_with(with); });
  }
  static bool any_starts_with(const std::vector<NotJudged>& all, const std::string& with) {
    return std::ranges::any_of(all, [&](const auto& one) { return one.text().starts_with(with); });
  }
};

TEST_F(PartialPromises, ReplayAsTheWholePromiseDoes) {
  const Replayed told = replayed(), whole = replay(many_, c_, all);
  EXPECT_EQ(told.ratios, whole.ratios);
  EXPECT_TRUE(told.findings.empty()) << told.findings.front().detail;
  EXPECT_GT(told.ratios.size(), 200U);
}

TEST_F(PartialPromises, JudgeAHealthyRunAndSayHowManyTheySpeakOf) {
  const Verdict v = verdict();
  EXPECT_EQ(v.exit_code(), 0) << text_report(v);
  EXPECT_TRUE(any_starts_with(v.notes, "replay judges ")) << text_report(v);
}

// Twins leave both open: what none of them moves, and what one row shows.
TEST_F(PartialPromises, FindWhatTwinsLeaveOpen) {
  const std::string still = "m0/layers.0.norm1/out", row = "m1/layers.1.mlp.add/out";
  change(still, [](Tensor& x) { scale(x, 1.02F); });
  Verdict v = verdict();
  EXPECT_EQ(v.exit_code(), 1);
  EXPECT_EQ(v.blamed, still);
  EXPECT_EQ(v.blamed_by, "replay");
  change(still, [](Tensor& x) { scale(x, 1 / 1.02F); });
  change(row, [](Tensor& x) {
    for (std::size_t j = 0; j < x.cols; ++j) x(3, j) = x(4, j);
  });
  v = verdict();
  EXPECT_EQ(v.exit_code(), 1);
  EXPECT_EQ(v.blamed, row);
  EXPECT_TRUE(v.unsettled.empty());
}

// Of one tensor nobody says how it was made, and no twin moves it. An operation that is right behind it makes
// no pass of that, and is not judged either.
TEST_F(PartialPromises, AcquitNothingThatComesFromADifferenceNobodyExplains) {
  const std::string still = "m0/layers.0.norm1/out", behind = "m0/layers.0.attn.qkv/out";
  change(still, [](Tensor& x) { scale(x, 1.02F); });
  const Merged changed = merge(candidate_);
  Values values = changed.values;
  const auto node =
      std::ranges::find_if(many_.nodes, [&](const Node& n) { return n.outputs.front() == behind; });
  RealRoundings roundings;
  Call<float> call{{}, node->attributes, node->how, roundings};
  for (const std::string& id : node->inputs) call.inputs.push_back(values.at(id).get());
  values[behind] = std::make_shared<const Tensor>(find_operation(node->op)->evaluate(call).front());
  candidate_ = of_one_rank(candidate_.manifest, values, changed);
  candidate_.about = reference_.about;
  for (Trace* trace : {&reference_, &candidate_}) trace->about.at(still).made_by.reset();
  options_.only = "^m0/layers.0.(norm1|attn.qkv)/out$";
  for (const std::vector<std::string>& rules :
       {std::vector<std::string>{"twins", "replay"}, {"replay"}}) {
    options_.rules = rules;
    const Verdict v = verdict();
    EXPECT_EQ(v.exit_code(), 3) << text_report(v);
    EXPECT_GT(v.unexplained, 0U) << text_report(v);
    EXPECT_EQ(v.unjudged, 2U) << text_report(v);
    EXPECT_TRUE(v.lines.empty());
  }
}

// What an optimizer keeps, where its producer takes it for something that twins judge, and where twins
// are too narrow.
TEST_F(PartialPromises, LeaveStatesOfAnOptimizerToReplay) {
  std::string square;
  for (const Node& node : one_.nodes) {
    if (node.op != "adam") continue;
    for (std::size_t i = 0; i < 2; ++i) {
      const std::string& id = node.outputs[i];
      reference_.about[id].phase = Phase::reduce;
      for (std::size_t k = 0; k < twins_.size(); ++k) {
        Tensor state = *r_.values.at(id);
        for (std::size_t e = k; e < state.size(); e += 3) state.values[e] *= 1 + 0x1p-22F;
        twins_[k].ranks[0].shards[id] = {whole(state.rows, state.cols), state, r_.formats.at(id)};
      }
    }
    square = node.outputs[1];
  }
  options_.rules = {"twins"};
  EXPECT_EQ(verdict().exit_code(), 1);
  options_.rules = {"twins", "replay"};
  Verdict v = verdict();
  EXPECT_EQ(v.exit_code(), 0) << text_report(v);
  EXPECT_EQ(v.unjudged, 0U) << text_report(v);
  change(square, [](Tensor& x) { scale(x, 1.01F); });
  v = verdict();
  EXPECT_EQ(v.blamed, square);
  EXPECT_EQ(v.blamed_by, "replay");
  for (Trace* trace : {&reference_, &candidate_}) said(*trace, square).attributes["beta2"] = 0.5;
  v = verdict();
  EXPECT_EQ(v.exit_code(), 3) << text_report(
      v);  // nobody judges it, and it is far beyond all twins
  EXPECT_EQ(v.unexplained, 1U) << text_report(v);
  for (Trace& twin : twins_) scale(twin.ranks[0].shards.at(square).values, 1.01F);
  v = verdict();
  EXPECT_EQ(v.exit_code(), 0) << text_report(v);  // as of weights: nobody judges it, and it is said
  EXPECT_EQ(v.unjudged, 1U) << text_report(v);
}

// The word of the reference is wrong: it does not keep it either.
TEST_F(PartialPromises, AccuseNobodyByAWrongWord) {
  const std::string id = "m0/layers.0.norm1/out";
  for (Trace* trace : {&reference_, &candidate_}) said(*trace, id).attributes["eps"] = 1;
  const Replayed seen = replayed();
  EXPECT_FALSE(seen.ratios.contains(id));
  EXPECT_TRUE(any_starts_with(seen.not_judged, id + ": the reference does not hold"));
}

TEST_F(PartialPromises, TakeAttributesOfTheReferenceAlone) {
  const std::string id = "m0/layers.0.norm1/out";
  said(candidate_, id).attributes["eps"] = 1;
  EXPECT_EQ(replayed().ratios.at(id), 0);
  said(reference_, id).attributes["eps"] = 1;
  EXPECT_FALSE(replayed().ratios.contains(id));  // a word that the reference does not keep
}

TEST_F(PartialPromises, LeaveOutWhatOneRunAloneSays) {
  const std::string other = "m0/layers.0.norm1/out", silent = "m0/layers.1.norm1/out";
  said(candidate_, other).op = "layer_norm";
  candidate_.about.at(silent).made_by.reset();
  const trace::Run r(reference_), c(candidate_);
  const PartialPromise told({r, reference_.about}, {c, candidate_.about});
  EXPECT_TRUE(any_starts_with(told.left_out(), other + ": the two runs say otherwise"));
  EXPECT_TRUE(any_starts_with(told.left_out(), silent + ": the candidate's producer does not say"));
  for (const std::string& id : {other, silent}) EXPECT_EQ(told.node_of(id), nullptr);
  EXPECT_TRUE(any_starts_with(verdict().not_judged, silent));
}

// Nobody says in which order more than two ranks add: a sum in any order is none of their findings, and
// a wrong one is.
TEST_F(PartialPromises, HoldSumsOfManyRanksToBoundsOfAnyOrder) {
  const std::string id = "m0/layers.0.attn.proj/out";
  const auto node =
      std::ranges::find_if(many_.nodes, [&](const Node& n) { return n.outputs.front() == id; });
  Evaluation how = node->how;
  how.parts = 4;
  how.wire = bf16;
  said(candidate_, id).parts = how.parts;
  said(candidate_, id).wire = how.wire;
  // The slices of the sum that the last rank has, first.
  const Values values = merge(candidate_).values;
  const Tensor &x = *values.at(node->inputs[0]), &w = *values.at(node->inputs[1]);
  Tensor turned_x(x.rows, x.cols), turned_w(w.rows, w.cols);
  const bool transposed = node->attributes.at("transpose_b") != 0;
  for (std::size_t k = 0; k < x.cols; ++k) {
    const std::size_t from = x.cols - (k / (x.cols / 4) + 1) * (x.cols / 4) + k % (x.cols / 4);
    for (std::size_t i = 0; i < x.rows; ++i) turned_x(i, k) = x(i, from);
    for (std::size_t j = 0; j < (transposed ? w.rows : w.cols); ++j) {
      (transposed ? turned_w(j, k) : turned_w(k, j)) = transposed ? w(j, from) : w(from, j);
    }
  }
  RealRoundings roundings;
  Call<float> call{{&turned_x, &turned_w}, node->attributes, how, roundings};
  for (std::size_t i = 2; i < node->inputs.size(); ++i) {
    call.inputs.push_back(values.at(node->inputs[i]).get());
  }
  const Tensor backwards = find_operation(node->op)->evaluate(call).front();
  change(id, [&](Tensor& y) { y.values = backwards.values; });
  Replayed seen = replayed();
  ASSERT_TRUE(seen.ratios.contains(id));
  EXPECT_GT(seen.ratios.at(id), 0);
  EXPECT_LE(seen.ratios.at(id), 1);
  change(id, [](Tensor& y) { scale(y, 1.25F); });
  EXPECT_GT(replayed().ratios.at(id), 1);
}

// Of a sum that is a few last bits off, a producer says that its parts travelled in a coarser format.
TEST_F(PartialPromises, AcquitNothingByACoarseWireThatNothingShows) {
  const std::string id = "m0/layers.0.attn.proj/out";
  ASSERT_EQ(said(candidate_, id).parts, 2);
  const Trace healthy = candidate_;
  change(id, [](Tensor& y) {
    scale(y, 1.05F);
    round_in_place(y.values, bf16);
  });
  ASSERT_GT(replayed().ratios.at(id), 1);
  said(candidate_, id).wire = e5m2;
  const Replayed seen = replayed();
  EXPECT_FALSE(seen.ratios.contains(id));
  EXPECT_TRUE(any_starts_with(seen.not_judged, id + ": only parts that travel in e5m2 explain it"));
  candidate_ = healthy;
  said(candidate_, id).wire = e5m2;
  EXPECT_LE(replayed().ratios.at(id), 1);  // it needs no such wire
}

// Words of two texts are 2 x 16 to their producer.
TEST_F(PartialPromises, BelieveInNoMorePartsThanThereAreRanks) {
  const trace::Run r(reference_), c(candidate_);
  const auto left_out = [&](std::size_t ranks) {
    return PartialPromise({r, reference_.about}, {c, candidate_.about, ranks}).left_out();
  };
  EXPECT_FALSE(std::ranges::any_of(
      left_out(2), [](const auto& one) { return one.why.find(" parts") != one.why.npos; }));
  EXPECT_TRUE(std::ranges::any_of(left_out(1), [](const auto& one) {
    return one.text().ends_with("its sum is said to have 2 parts, and there is 1 rank");
  }));
}

TEST(HeldByTwins, AreNeitherSingleRowsNorNoise) {
  TwinsJudgement twins;
  for (const char* id : {"held", "row", "noise"}) twins.worst[id] = {};
  twins.one_row = {"row"};
  twins.noisy = {"noise"};
  EXPECT_EQ(held_by(twins), std::set<std::string>{"held"});
}

TEST_F(PartialPromises, TakeAVectorInAnyShape) {
  const std::string ids = "m0/data/ids", out = "m0/embedding/out";
  ASSERT_EQ(said(reference_, out).inputs.front(), ids);
  for (Trace* trace : {&reference_, &candidate_}) {
    for (RankRecord& rank : trace->ranks) {
      Shard& shard = rank.shards.at(ids);
      shard.values.cols = shard.values.size() / 2;
      shard.values.rows = 2;
      shard.placement = whole(shard.values.rows, shard.values.cols);
    }
  }
  const Replayed seen = replayed();
  ASSERT_TRUE(seen.ratios.contains(out));
  EXPECT_EQ(seen.ratios.at(out), 0);
}

TEST_F(PartialPromises, SayWhereAnInputIsMissing) {
  const std::string id = "m0/layers.0.norm1/out", input = said(reference_, id).inputs.front();
  for (Trace* trace : {&reference_, &candidate_}) {
    for (RankRecord& rank : trace->ranks) rank.shards.erase(input);
  }
  const Replayed seen = replayed();
  EXPECT_TRUE(
      any_starts_with(seen.not_judged, id + ": its input '" + input + "' was not recorded"));
}

TEST_F(PartialPromises, OfARunAloneHoldItToItsOwnWord) {
  const std::string id = "m0/layers.0.norm1/out";
  change(id, [](Tensor& x) { scale(x, 1.02F); });
  for (auto& [one, says] : candidate_.about) says.order = reference_.about.at(one).order;
  const trace::Run c(candidate_);
  const Replayed seen = PartialPromise({c, candidate_.about}).replayed(all, {}, Hands());
  ASSERT_FALSE(seen.findings.empty());
  EXPECT_EQ(seen.findings.front().id, id);
}

// a -> b -> c, of which b and c differ; what is known of a decides.
TEST_F(PartialPromises, AccountForARowOnlyIfTheyDoForAllItIsMadeFrom) {
  const std::string a = "m0/layers.0.attn.proj/out", b = "m0/layers.0.attn.add/out",
                    c = "m0/layers.0.norm2/out";
  ASSERT_TRUE(std::ranges::count(said(reference_, b).inputs, a) == 1);
  ASSERT_TRUE(std::ranges::count(said(reference_, c).inputs, b) == 1);
  Pairs pairs;
  for (const auto& [id, tensor] : c_.values) pairs[id] = {true, true};
  for (const std::string& id : {a, b, c}) pairs[id].equal = false;
  const auto holds = [&](std::set<std::string> by_twins) {
    const trace::Run run_r(reference_), run_c(candidate_);
    const PartialPromise told({run_r, reference_.about}, {run_c, candidate_.about});
    Replays replays([&](const auto& wanted) { return told.replayed(wanted, {}, Hands()); });
    const auto node_of = [&](const std::string& id) { return told.node_of(id); };
    return Accounts(pairs, node_of, replays, std::move(by_twins)).holds(c);
  };
  EXPECT_TRUE(holds({}));
  candidate_.about.at(a).made_by.reset();
  EXPECT_FALSE(holds({}));  // nobody says how a was made
  EXPECT_TRUE(holds({a}));
  change(b, [](Tensor& x) { scale(x, 1.02F); });
  EXPECT_FALSE(holds({a}));
}

}  // namespace
}  // namespace plumb::partial_promise_test
