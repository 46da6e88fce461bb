#include "experiments/corpus/score.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <sstream>

#include "experiments/corpus/making.hpp"
#include "experiments/said.hpp"
#include "number/words.hpp"
#include "trace/levels.hpp"
#include "trace/store/json.hpp"

namespace plumb::experiments {
namespace {

using nlohmann::json;
using Says = CaseVerdict::Says;

constexpr double confidence = 0.95;  // of intervals, by convention
const std::set<std::string> fields = {"case", "verdict", "blamed", "score"};
const std::vector<std::string> words = {"pass", "fail", "undecided"};  // in the order of Says

Label label_from(const json& j) {
  Label label;
  if (j.at("bug").is_null()) return label;
  label.bug = j.at("bug").get<std::string>();
  label.bites_at = j.at("bites_at").get<std::string>();
  label.module = j.at("module").get<std::string>();
  label.bites = j.at("bites").get<bool>();
  return label;
}

// Why a line is no verdict; empty: it is one.
std::string wrong_with(const json& j) {
  for (const auto& [field, value] : j.items()) {
    if (!fields.contains(field)) return "has the field '" + field + "', which no verdict has";
  }
  if (!j.contains("case") || !j.at("case").is_string()) return "names no case, as \"0001\"";
  const json verdict = j.value("verdict", json());
  if (!verdict.is_string() || std::ranges::find(words, verdict.get<std::string>()) == words.end()) {
    return "has no verdict 'pass', 'fail' or 'undecided'";
  }
  if (j.contains("blamed") && !j.at("blamed").is_null() && !j.at("blamed").is_string()) {
    return "blames what is no text";
  }
  if (j.contains("score") && !j.at("score").is_null() && !j.at("score").is_number()) {
    return "has a score that is no number";
  }
  return "";
}

CaseVerdict verdict_from(const json& j) {
  CaseVerdict v;
  const auto place = std::ranges::find(words, j.at("verdict").get<std::string>()) - words.begin();
  v.says = static_cast<Says>(place);
  if (j.contains("blamed") && j.at("blamed").is_string()) v.blamed = j.at("blamed");
  if (j.contains("score") && j.at("score").is_number()) v.score = j.at("score").get<double>();
  return v;
}

bool names_module(const CaseVerdict& v, const Label& label) {
  return v.blamed == label.module || module_of(v.blamed) == label.module;
}

void count(Share& share, bool hit) {
  ++share.of;
  share.hits += hit ? 1 : 0;
}

// Chance that a buggy case has a larger score than a healthy one, and half of that they tie [MW47].
double area_of(const std::vector<double>& buggy, const std::vector<double>& healthy) {
  double wins = 0;
  for (const double b : buggy) {
    for (const double h : healthy) wins += b > h ? 1 : b == h ? 0.5 : 0;
  }
  return wins / (static_cast<double>(buggy.size()) * static_cast<double>(healthy.size()));
}

Ranking ranking_of(const std::vector<double>& buggy, std::vector<double> healthy, double level) {
  Ranking r;
  r.area = area_of(buggy, healthy);
  std::ranges::sort(healthy, std::greater());
  const auto allowed = static_cast<std::size_t>(level * static_cast<double>(healthy.size()));
  r.threshold = healthy[std::min(allowed, healthy.size() - 1)];
  for (const double h : healthy) count(r.false_alarms, h > r.threshold);
  for (const double b : buggy) count(r.detected, b > r.threshold);
  return r;
}

// One case that has a verdict.
void add(Score& score, const Label& label, const CaseVerdict& v) {
  const bool fails = v.says == Says::fail, undecided = v.says == Says::undecided;
  if (!v.score) ++score.without_score;
  if (!label.bug) {
    count(score.false_alarms, fails);
    count(score.undecided_healthy, undecided);
    return;
  }
  if (!label.bites) return count(score.silent, fails);
  count(score.detected, fails);
  count(score.undecided_buggy, undecided);
  if (v.says == Says::pass) score.missed.push_back(*label.bug);
  if (!fails) return;
  count(score.blamed_exactly, v.blamed == label.bites_at);
  count(score.blamed_module, names_module(v, label));
}

}  // namespace

Labels labels_from(const json& document, const std::string& name) {
  if (document.value("schema", json()) != schema_of_labels) {
    throw Failure(name + " has no labels of a corpus (schema " + schema_of_labels +
                  "); name the labels.json of one");
  }
  Labels labels;
  try {
    for (const json& j : document.at("cases")) labels[j.at("case")] = label_from(j);
    const json& number = document.at("pairs");
    if (!number.is_number_unsigned()) damaged(name, "has no whole number of pairs");
    const auto pairs = number.get<std::size_t>();
    if (labels.size() % 2 == 0 && labels.size() / 2 == pairs) return labels;
    throw Failure(name + " has labels of " + how_many(labels.size(), "case") + " of " +
                  std::to_string(2 * pairs) + ": the corpus was stopped; run plumb corpus again");
  } catch (const json::exception&) {
    damaged(name, "has labels that are none");
  }
}

CaseVerdicts verdicts_from(const std::string& lines, const Labels& labels,
                           const std::string& name) {
  CaseVerdicts verdicts;
  std::istringstream in(lines);
  std::size_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    const auto no = [&](const std::string& why) {
      throw Failure("line " + std::to_string(number) + " of " + name + " " + why +
                    "; see docs/corpus.md");
    };
    const Outcome<json> j = object_in(line);
    if (!j) no(j.error().detail);
    if (const std::string why = wrong_with(*j); !why.empty()) no(why);
    const auto id = j->at("case").get<std::string>();
    if (!labels.contains(id)) no("judges the case '" + id + "', which the corpus does not have");
    if (!verdicts.emplace(id, verdict_from(*j)).second) no("judges the case '" + id + "' again");
  }
  return verdicts;
}

json json_of(const Share& share) {
  json j{{"hits", share.hits}, {"of", share.of}, {"rate", nullptr}, {"interval", nullptr}};
  if (share.of == 0) return j;
  const Interval interval = binomial_interval(share.hits, share.of, confidence);
  j["rate"] = static_cast<double>(share.hits) / static_cast<double>(share.of);
  j["interval"] = {interval.low, interval.high};
  return j;
}

Score score_of(const Labels& labels, const CaseVerdicts& verdicts, double level) {
  Score score;
  std::vector<double> buggy, healthy;
  for (const auto& [id, label] : labels) {
    const auto found = verdicts.find(id);
    if (found == verdicts.end()) {
      score.missing.push_back(id);
      continue;
    }
    add(score, label, found->second);
    if (!found->second.score || (label.bug && !label.bites)) continue;
    (label.bug ? buggy : healthy).push_back(*found->second.score);
  }
  const bool all = buggy.size() == score.detected.of && healthy.size() == score.false_alarms.of;
  if (all && !buggy.empty() && !healthy.empty()) {
    score.ranking = ranking_of(buggy, std::move(healthy), level);
  }
  return score;
}

}  // namespace plumb::experiments
