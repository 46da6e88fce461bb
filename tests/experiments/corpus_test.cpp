// Do the traces of a corpus keep their labels to themselves, does a corpus that was stopped go on, and are
// verdicts of known quality scored as such?
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "experiments/corpus/making.hpp"
#include "experiments/corpus/score.hpp"
#include "experiments/small.hpp"
#include "tests/support/rooms.hpp"
#include "trace/merge.hpp"
#include "trace/store/json.hpp"
#include "trace/store/store.hpp"

namespace plumb::corpus_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

template <class Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const Failure& failure) {
    return failure.what();
  }
  return "";
}

#define EXPECT_REFUSED(call, words) \
  EXPECT_NE(refusal([&] { call; }).find(words), std::string::npos) << refusal([&] { call; })

Effort patient() {
  Effort effort;
  effort.out_of_time = [] { return false; };
  effort.progress = [](const std::string&) {};
  return effort;
}

CorpusAsked small(const std::string& bugs) {
  CorpusAsked asked;
  asked.bugs = bugs;
  asked.small = true;
  asked.families = {"gpt"};
  return asked;
}

TEST(CorpusPlan, HasEachCardInEachOfItsFamiliesAndNumbersThatSayNothing) {
  const CorpusPlan plan = plan_corpus({});
  std::set<std::string> bugs, cases, references;
  std::set<std::uint64_t> seeds;
  std::size_t families = 0, healthy_first = 0, in_order = 0;
  std::string before;
  for (const Bug* bug : all_bugs()) families += bug->needs.families.size();
  for (const Pair& pair : plan.pairs) {
    bugs.insert(std::string(pair.bug->id));
    cases.insert({pair.healthy, pair.buggy});
    references.insert(pair.reference);
    seeds.insert(pair.seed);
    healthy_first += pair.healthy < pair.buggy ? 1 : 0;
    in_order += before < std::string(pair.bug->id) ? 1 : 0;
    before = pair.bug->id;
  }
  const std::size_t n = plan.pairs.size();
  EXPECT_EQ(n, families) << plan.left_out.size();
  EXPECT_EQ(bugs.size(), all_bugs().size());
  EXPECT_EQ(cases.size(), 2 * n);
  EXPECT_EQ(references.size(), n);
  EXPECT_EQ(seeds.size(), n);
  // Of n fair coins: fewer than a quarter or more than three quarters have a chance below 1e-5.
  EXPECT_GT(4 * healthy_first, n);
  EXPECT_LT(4 * healthy_first, 3 * n);
  EXPECT_LT(4 * in_order, 3 * n);
  CorpusAsked other;
  other.draw = 2;
  EXPECT_FALSE(
      std::ranges::equal(plan_corpus(other).pairs, plan.pairs, {}, &Pair::bug, &Pair::bug));
  EXPECT_REFUSED(plan_corpus(small("no-such-bug")), "matches no bug");
  other.recipe = "fp32";
  EXPECT_FALSE(plan_corpus(other).left_out.empty());  // short operands are needed by some
}

class InCorpus : public testing::Test {
 protected:
  InCorpus() : folder_(fs::temp_directory_path() / ("plumb-corpus-" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
  }
  ~InCorpus() override { fs::remove_all(folder_); }

  Corpus corpus(const std::string& bugs, const std::string& program = "plumb") {
    return {folder_, small(bugs), program};
  }
  void made(const std::string& bugs) {
    Corpus all = corpus(bugs);
    all.make(patient(), [](std::uintmax_t) {});
    ASSERT_TRUE(all.complete());
  }
  json labels() { return read_json(folder_ / "labels.json"); }
  // What a file of tensors says of them, without the values.
  static std::string header_of(const fs::path& file) {
    const std::string text = text_of(file);
    std::uint64_t length = 0;
    std::memcpy(&length, text.data(), 8);
    return text.substr(8, length);
  }
  std::vector<fs::path> files_below(const fs::path& folder) {
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
    std::ranges::sort(files);
    return files;
  }
  fs::path folder_;
};

TEST_F(InCorpus, TracesOfAPairSayTheSameAndNoFileNamesABug) {
  made(
      "^(one-masked-entry|sp-norm-grad-not-reduced|dp-gradient-scale|fp8-cast-of-local-norm-output)$");
  std::map<std::string, std::vector<fs::path>> pairs;
  std::set<std::string> words{"healthy", "buggy"};
  const json all = labels();
  for (const json& label : all.at("cases")) {
    pairs[label.at("pair")].push_back(folder_ / "cases" / label.at("case").get<std::string>());
    if (!label.at("bug").is_null()) words.insert(label.at("bug").get<std::string>());
  }
  ASSERT_EQ(pairs.size(), 4U);
  for (const auto& [pair, cases] : pairs) {
    ASSERT_EQ(cases.size(), 2U);
    const auto first = files_below(cases[0]), second = files_below(cases[1]);
    ASSERT_EQ(first.size(), second.size());
    for (std::size_t i = 0; i < first.size(); ++i) {
      EXPECT_EQ(fs::relative(first[i], cases[0]), fs::relative(second[i], cases[1]));
      const bool tensors = first[i].extension() == ".safetensors";
      const auto said = tensors ? header_of : text_of;
      EXPECT_EQ(said(first[i]), said(second[i])) << first[i];
    }
  }
  std::vector<fs::path> seen = files_below(folder_ / "cases");
  std::ranges::copy(files_below(folder_ / "references"), std::back_inserter(seen));
  seen.push_back(folder_ / "cases.json");
  for (const fs::path& file : seen) {
    const std::string said = file.extension() == ".safetensors" ? header_of(file) : text_of(file);
    for (const std::string& word : words) EXPECT_EQ(said.find(word), said.npos) << file << word;
  }
}

TEST_F(InCorpus, HealthyAndBuggyDifferWhereTheLabelSaysThatTheBugBites) {
  made("^one-masked-entry$");
  const json all = labels();
  std::map<bool, Merged> runs;
  std::string bites_at;
  for (const json& label : all.at("cases")) {
    const fs::path folder = folder_ / "cases" / label.at("case").get<std::string>();
    const bool buggy = !label.at("bug").is_null();
    runs[buggy] = merge(read_trace(folder));
    if (!buggy) continue;
    bites_at = label.at("bites_at");
    EXPECT_TRUE(label.at("bites").get<bool>());
    EXPECT_GT(label.at("effect").get<double>(), 0);
    EXPECT_EQ(label.at("module"), "layers.2.attn.core");
  }
  const auto equal = [&](const std::string& id) {
    return runs[true].values.at(id)->values == runs[false].values.at(id)->values;
  };
  EXPECT_FALSE(equal(bites_at));
  EXPECT_TRUE(equal("m0/layers.2.attn.qkv/out"));
}

TEST_F(InCorpus, ThatWasStoppedGoesOnAndEndsAsOneThatWasNot) {
  const std::string bugs = "^(one-masked-entry|sp-norm-grad-not-reduced)$";
  Effort effort = patient();
  int asked = 0;
  effort.out_of_time = [&] { return ++asked > 1; };
  std::uintmax_t about = 0;
  {
    Corpus first = corpus(bugs);
    first.make(effort, [&](std::uintmax_t bytes) { about = bytes; });
    EXPECT_EQ(first.kept(), 1U);
  }
  EXPECT_REFUSED(labels_from(labels(), "labels.json"), "the corpus was stopped");
  std::map<fs::path, fs::file_time_type> kept;
  for (const fs::path& file : files_below(folder_ / "cases"))
    kept[file] = fs::last_write_time(file);
  const std::string pair = corpus(bugs).plan().pairs[1].reference;
  const fs::path left = folder_ / "references" / pair / "reference.partial-999999999";
  fs::create_directories(left);  // of a process that there is not
  made(bugs);
  EXPECT_FALSE(fs::exists(left));
  for (const auto& [file, time] : kept) EXPECT_EQ(fs::last_write_time(file), time) << file;
  const double bytes = static_cast<double>(corpus(bugs).bytes());
  EXPECT_NEAR(static_cast<double>(about), bytes, bytes / 2);
  std::map<fs::path, std::string> gone_on;
  for (const fs::path& file : files_below(folder_)) gone_on[file] = text_of(file);
  fs::remove_all(folder_);
  made(bugs);
  std::map<fs::path, std::string> at_once;
  for (const fs::path& file : files_below(folder_)) at_once[file] = text_of(file);
  EXPECT_TRUE(gone_on == at_once);
  fs::remove_all(folder_ / "cases" / "0001");  // by somebody; its label is still there
  made(bugs);
  std::map<fs::path, std::string> again;
  for (const fs::path& file : files_below(folder_)) again[file] = text_of(file);
  EXPECT_TRUE(again == at_once);
}

TEST_F(InCorpus, IsRefusedInAFolderOfAnotherOrOfSomethingElse) {
  made("^one-masked-entry$");
  EXPECT_REFUSED(corpus("^sp-norm-grad-not-reduced$"), "that was asked for by");
  EXPECT_REFUSED(corpus("^one-masked-entry$", "plumb of another commit"), "that was made by");
  EXPECT_EQ(refusal([&] { corpus("^one-masked-entry$"); }), "");
  fs::remove_all(folder_);
  fs::create_directories(folder_ / "photographs");
  EXPECT_REFUSED(corpus("^one-masked-entry$"), "holds something else than a corpus");
}

TEST(SmallModel, IsTrainedWithTheChoicesThatABugNeeds) {
  const CorpusPlan plan = plan_corpus(small("^mtp-label-double-shift$"));
  ASSERT_EQ(plan.pairs.size(), 1U);
  const Config config = config_of(small(""), plan.pairs[0]);
  EXPECT_EQ(config.mtp, 1);
  EXPECT_EQ(config.seed, plan.pairs[0].seed);
  EXPECT_EQ(small_model_like(config).mtp, 1);
  EXPECT_EQ(small_model_like(config).width, config.width);
  EXPECT_EQ(small_model_like(config).seed, 1U);
}

// Ten cases: four healthy, five in which a bug bites, one in which no bit changes.
class Scores : public testing::Test {
 protected:
  Scores() {
    for (const char* id : {"01", "02", "03", "04"}) labels_[id] = {};
    for (const char* id : {"05", "06", "07", "08", "09"}) {
      labels_[id] = {"bug-" + std::string(id), "m0/layers.1.norm1/out", "layers.1.norm1", true};
    }
    labels_["10"] = {"bug-10", "loss/out", "loss", false};
  }
  static std::string line(const std::string& id, const std::string& verdict,
                          const std::string& more = "") {
    return "{\"case\": \"" + id + "\", \"verdict\": \"" + verdict + "\"" + more + "}\n";
  }
  CaseVerdicts read(const std::string& lines) { return verdicts_from(lines, labels_, "v.jsonl"); }
  Score score(const std::string& lines, double level = 0.01) {
    return score_of(labels_, read(lines), level);
  }
  Labels labels_;
};

TEST_F(Scores, AreTheSharesThatWereMadeByHand) {
  const Score s =
      score(line("01", "pass") + line("02", "fail") + line("03", "undecided") + line("04", "pass") +
            line("05", "fail", ", \"blamed\": \"m0/layers.1.norm1/out\"") +
            line("06", "fail", ", \"blamed\": \"layers.1.norm1\"") +
            line("07", "fail", ", \"blamed\": \"m1/layers.1.norm1/grad_in\"") +
            line("08", "fail", ", \"blamed\": \"m0/layers.2.norm1/out\"") + line("09", "pass") +
            line("10", "fail"));
  const auto is = [](const Share& share, std::size_t hits, std::size_t of) {
    return share.hits == hits && share.of == of;
  };
  EXPECT_TRUE(is(s.detected, 4, 5));
  EXPECT_TRUE(is(s.false_alarms, 1, 4));
  EXPECT_TRUE(is(s.undecided_healthy, 1, 4));
  EXPECT_TRUE(is(s.undecided_buggy, 0, 5));
  EXPECT_TRUE(is(s.blamed_exactly, 1, 4));
  EXPECT_TRUE(is(s.blamed_module, 3, 4));
  EXPECT_TRUE(is(s.silent, 1, 1));
  EXPECT_EQ(s.missed, std::vector<std::string>{"bug-09"});
  EXPECT_TRUE(s.missing.empty());
  EXPECT_FALSE(s.ranking);
  EXPECT_EQ(s.without_score, 10U);
  // Clopper-Pearson of 4 of 5: tails of 2.5 % as tables have them.
  EXPECT_NEAR(json_of(s.detected)["interval"][0].get<double>(), 0.2836, 1e-4);
  EXPECT_NEAR(json_of(s.detected)["interval"][1].get<double>(), 0.9949, 1e-4);
}

TEST_F(Scores, NeverTakeAMissingCaseForAPass) {
  const Score s = score(line("01", "pass") + line("05", "fail"));
  EXPECT_EQ(s.missing, (std::vector<std::string>{"02", "03", "04", "06", "07", "08", "09", "10"}));
  EXPECT_EQ(s.detected.of, 1U);
  EXPECT_EQ(s.false_alarms.of, 1U);
  EXPECT_TRUE(s.missed.empty());
}

TEST_F(Scores, RankBuggyCasesAboveHealthyOnesAndTiesHalf) {
  std::string lines;
  const double scores[] = {1, 2, 3, 4, 4, 5, 6, 0.5, 7, 100};
  for (std::size_t i = 0; i < 10; ++i) {
    const std::string id = i < 9 ? "0" + std::to_string(i + 1) : "10";
    lines += line(id, "undecided", ", \"score\": " + std::to_string(scores[i]));
  }
  const Score s = score(lines);
  ASSERT_TRUE(s.ranking);
  // Buggy 4, 5, 6, 0.5, 7 against 1, 2, 3, 4: 3.5 + 4 + 4 + 0 + 4 of 20 pairs.
  EXPECT_DOUBLE_EQ(s.ranking->area, 15.5 / 20);
  EXPECT_EQ(s.ranking->threshold, 4);
  EXPECT_EQ(s.ranking->false_alarms.hits, 0U);
  EXPECT_EQ(s.ranking->detected.hits, 3U);
  const Score lenient = score(lines, 0.25);
  EXPECT_EQ(lenient.ranking->threshold, 3);
  EXPECT_EQ(lenient.ranking->false_alarms.hits, 1U);
  EXPECT_EQ(lenient.ranking->detected.hits, 4U);
}

TEST_F(Scores, RefuseWhatIsNoVerdictOfTheCorpus) {
  EXPECT_REFUSED(read(line("01", "pass") + line("01", "fail")),
                 "line 2 of v.jsonl judges the case '01' again");
  EXPECT_REFUSED(read(line("11", "pass")), "'11', which the corpus does not have");
  EXPECT_REFUSED(read(line("01", "PASS")), "no verdict 'pass', 'fail' or 'undecided'");
  EXPECT_REFUSED(read("{\"verdict\": \"pass\"}"), "names no case");
  EXPECT_REFUSED(read(line("01", "pass", ", \"ratio\": 3")), "the field 'ratio'");
  EXPECT_REFUSED(read(line("01", "pass", ", \"score\": \"3\"")), "a score that is no number");
  EXPECT_REFUSED(read("passed\n"), "line 1 of v.jsonl is not a JSON object");
  EXPECT_REFUSED(labels_from(json::object(), "x"), "has no labels of a corpus");
}

}  // namespace
}  // namespace plumb::corpus_test
