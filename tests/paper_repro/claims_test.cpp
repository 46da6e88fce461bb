// Is every claim's answer one of its rows, and nothing else? Does the README tell what they say?
#include "paper_repro/claim.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>

#include "experiments/experiment.hpp"
#include "paper_repro/by_hand.hpp"
#include "paper_repro/print.hpp"
#include "tests/support/rooms.hpp"
#include "trace/selection.hpp"

namespace plumb::claims_test {
namespace {

std::string text_of(const std::string& file) {
  std::ifstream in(std::string(PLUMB_SOURCE_DIR) + "/" + file);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The committed rows, but of one question other ones.
Evidence with(const std::string& question, const std::optional<std::string>& text) {
  return {[=](const std::string& file) -> std::optional<std::string> {
            if (file == question + ".csv") return text;
            for (const char* machine : {"xeon-amx", "zen4", "zen5"}) {
              std::string rows =
                  text_of("experiments/results/" + std::string(machine) + "/" + file);
              if (!rows.empty()) return rows;
            }
            return {};
          },
          "a test"};
}

Evidence as_committed() { return with("none", {}); }

TEST(Claims, StandInTheReadmeAsTheRowsSay) {
  const std::string text = text_of("paper_repro/README.md");
  const std::string begin = "<!-- claims -->\n", end = "<!-- end -->";
  const std::size_t first = text.find(begin), last = text.find(end);
  ASSERT_NE(first, std::string::npos);
  ASSERT_NE(last, std::string::npos);
  const std::size_t start = first + begin.size();
  EXPECT_EQ(text.substr(start, last - start), claim_table(committed_evidence()));
}

TEST(Claims, AreNotMeasuredWithoutTheirRows) {
  for (const Claim* claim : all_claims()) {
    ASSERT_FALSE(claim->rows.empty()) << claim->id;
    for (const Rerun& rows : claim->rows) {
      const std::string question(rows.question);
      const Answer none = judged(*claim, with(question, {}));
      EXPECT_EQ(none.agrees, Agreement::not_measured) << claim->id << " without " << question;
      EXPECT_NE(none.ours.find(question), std::string::npos) << none.ours;
      const std::string committed = as_committed().text(question + ".csv").value_or("");
      const Answer heading =
          judged(*claim, with(question, committed.substr(0, committed.find('\n') + 1)));
      EXPECT_EQ(heading.agrees, Agreement::not_measured)
          << claim->id << ": no rows in " << question;
    }
  }
}

TEST(Claims, AreAllMeasuredByTheCommittedRows) {
  for (const Claim* claim : all_claims()) {
    const Answer answer = judged(*claim, as_committed());
    EXPECT_NE(answer.agrees, Agreement::not_measured) << claim->id << ": " << answer.ours;
    EXPECT_FALSE(answer.details.empty()) << claim->id;
  }
}

TEST(Claims, NameExperimentsAndPicturesThatThereAre) {
  std::set<std::string_view> pictures;
  for (const Claim* claim : all_claims()) {
    for (const Rerun& rows : claim->rows) {
      if (!rows.by.empty()) {
        EXPECT_FALSE(text_of(std::string(rows.by.substr(0, rows.by.find_first_of(" :")))).empty())
            << rows.by;
        continue;
      }
      EXPECT_NO_THROW(find_experiment(rows.question)) << claim->id;
    }
    if (claim->picture.empty()) continue;
    EXPECT_TRUE(as_committed().text(std::string(claim->picture))) << claim->picture;
  }
}

// Of each question that no experiment answers, a command whose source is there.
TEST(Claims, SayHowRowsAreMadeThatNoExperimentMakes) {
  for (const Claim* claim : all_claims()) {
    for (const Rerun& rows : claim->rows) {
      if (rows.by.empty()) {
        EXPECT_THROW(by_hand(rows.question, "mine"), std::invalid_argument) << rows.question;
        continue;
      }
      const std::string text = by_hand(rows.question, "mine");
      const std::string source(rows.by.substr(0, rows.by.find(':')));
      const std::string stem = std::filesystem::path(source).stem().string();
      for (const std::string& part : {std::string(rows.question), stem, std::string("mine")}) {
        EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
      }
    }
  }
}

// The keys that a question looks up.
const std::vector<Table::Row>& keys_of(const Rerun& rows) {
  static std::map<std::pair<std::string, int>, std::vector<Table::Row>> known;
  const auto [place, is_new] = known.try_emplace({std::string(rows.question), rows.effort});
  if (is_new) {
    const Experiment& experiment = find_experiment(rows.question);
    Table asks(experiment.columns, experiment.keys);
    asks.only_ask();
    Effort none;
    none.scale = rows.effort;
    none.progress = [](const std::string&) {};
    none.out_of_time = [] { return false; };
    experiment.run(asks, none);
    place->second = asks.asked();
  }
  return place->second;
}

// --only of a smaller run leaves something to do, and not all of it.
TEST(Claims, NameRowsThatTheirExperimentsMake) {
  for (const Claim* claim : all_claims()) {
    for (const Rerun& rows : claim->rows) {
      if (!rows.by.empty() || rows.smoke == too_long) continue;
      const Pattern wanted(std::string(rows.smoke), "smoke");
      std::size_t chosen = 0;
      for (const Table::Row& key : keys_of(rows)) {
        chosen += wanted.matches(fmt::format("{}", fmt::join(key, " "))) ? 1 : 0;
      }
      EXPECT_GT(chosen, 0U) << claim->id << ": " << rows.smoke;
      EXPECT_LT(chosen, keys_of(rows).size()) << claim->id << ": " << rows.smoke;
    }
  }
}

// A figure of the answer follows the rows.
TEST(Claims, ChangeWithTheirRows) {
  const std::string heading =
      "operation,mode,inputs,calls,refused,elements,violations,calls_violated,mpfr_elements,"
      "mpfr_violations,largest_error_over_bound,z_rms,z_beyond_3,z_beyond_4,z_beyond_5\n";
  const std::string clean = "gemm,deterministic,plain,1,0,100,0,0,10,0,0.9,-,-,-,-\n";
  const std::string bad = "softmax,deterministic,plain,1,0,100,1,1,10,0,1.1,-,-,-,-\n";
  const Claim& claim = find_claim("B1");
  EXPECT_EQ(judged(claim, with("soundness", heading + clean)).agrees, Agreement::yes);
  const Answer seen = judged(claim, with("soundness", heading + clean + bad));
  EXPECT_EQ(seen.agrees, Agreement::no);
  EXPECT_NE(seen.ours.find("1 of 200"), std::string::npos) << seen.ours;
}

// A crash that takes something in silence, and an enumeration that would not see one.
TEST(Claims, OfCrashesAreAsGoodAsTheirControl) {
  const std::string heading =
      "saved,syncs,steps,moments,states,drawn,complete,resumed,reported,undone,silent,syncs_tried,"
      "syncs_needed\n";
  const auto answer = [&](const std::string& made, const std::string& lost) {
    return judged(find_claim("B19"),
                  with("crash-states", heading + "x,made,1,2,9,0,1,1,0," + made + ",-,-\n" +
                                           "x,one lost,1,2,9,0,1,1,0,0,1,3,2\n" +
                                           "x,lost,1,2,9,0,1,1,0," + lost + ",-,-\n"))
        .agrees;
  };
  EXPECT_EQ(answer("0,0", "1,2"), Agreement::yes);
  EXPECT_EQ(answer("0,1", "1,2"), Agreement::no);
  EXPECT_EQ(answer("1,0", "1,2"), Agreement::no);
  EXPECT_EQ(answer("0,0", "0,0"), Agreement::partly);
}

// Waits that take all of a check, and real steps that get no longer: both are asked for.
TEST(Claims, OfBubblesNeedBothShapesAndRealSteps) {
  const auto verdict = [](double steps, double slow_down) {
    const std::string shapes = fmt::format(
        "order,ranks,chunks,micro_batches,piece,done_steps\nas-run,2,1,4,operation,{}\n", steps);
    const std::string real = fmt::format(
        "world,layout,waits,used,fits_of_all,slow_down\nmpi,pp2,0.1,0.9,0.3,{}\n", slow_down);
    const Evidence rows({[=](const std::string& file) -> std::optional<std::string> {
                           return file == "bubbles.csv"       ? shapes
                                  : file == "bubbles-run.csv" ? real
                                                              : "twins_and_replay\n8\n";
                         },
                         "a test"});
    return judged(find_claim("B20"), rows).agrees;
  };
  EXPECT_EQ(verdict(8, 0.01), Agreement::yes);
  EXPECT_EQ(verdict(7.9, 0.01), Agreement::partly);
  EXPECT_EQ(verdict(0, 0.01), Agreement::no);
  EXPECT_EQ(verdict(8, 0.03), Agreement::no);
}

TEST(Claims, ThatAccuseTheHealthySaySo) {
  const Answer clean{Agreement::yes, "", Share{0, 100}};
  EXPECT_EQ(verdict_of(clean), "yes; accuses 0 of 100 healthy runs");
  EXPECT_FALSE(worthless(clean));
  const Answer level{Agreement::yes, "", Share{8, 100}};  // 5 are expected at a rate of 0.05
  EXPECT_FALSE(worthless(level));
  const Answer half{Agreement::yes, "", Share{20, 40}};
  EXPECT_EQ(verdict_of(half), "yes, but accuses 20 of 40 healthy runs");
  EXPECT_TRUE(worthless(half));
  EXPECT_EQ(verdict_of({Agreement::not_measured, "", Share{20, 40}}), "not measured");
}

TEST(Claims, TellTheWholeStoryOfOne) {
  const std::string text = whole(find_claim("B1"), committed_evidence());
  for (const char* part :
       {"asked of ourselves", "reading", "soundness.csv", "commit", "| mode |"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  }
  EXPECT_THROW(find_claim("E99"), Failure);
  const std::string without = whole(find_claim("E5"), with("error-growth", {}));
  EXPECT_NE(without.find("none of error-growth in a test"), std::string::npos) << without;
  EXPECT_EQ(without.find("not said"), std::string::npos) << without;
}

TEST(Evidence, RefusesColumnsAndNumbersThatAreNone) {
  const Evidence rows = with("q", "a,b\n1,x\n");
  const Row& row = rows.rows("q").front();
  EXPECT_EQ(row.number("a"), 1);
  EXPECT_THROW(row.number("b"), Failure);
  EXPECT_THROW(row["c"], Failure);
  EXPECT_THROW(evidence_in("no/such/folder"), Failure);
  EXPECT_THROW(where(rows.rows("q"), {{"a", "2"}}), NotMeasured);
}

}  // namespace
}  // namespace plumb::claims_test
