// experiments/corpus/score.hpp: how well a checker's verdicts fit the labels of a corpus.
//
// CLAIM    Rates are over the cases that have a verdict; a case without one is missing, and named. A
//          buggy run in which no bit changed is counted apart: nobody can detect it.
// REFUSES  (Failure) with the line: what is no verdict, a case that the corpus does not have, one that
//          has a verdict already; labels of a corpus that is not complete
// TESTED   tests/experiments/corpus_test.cpp
// SOURCES  bounds/SOURCES.md [CP34] [MW47]
#pragma once

#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "experiments/sees.hpp"
#include "experiments/share.hpp"

namespace plumb::experiments {

// What is known of a case; without `bug` it is healthy.
struct Label {
  std::optional<std::string> bug;
  std::string bites_at, module;
  bool bites = false;  // some bit differs from the healthy run
};
using Labels = std::map<std::string, Label>;  // by case
// `name`: what failures call the text.
Labels labels_from(const nlohmann::json& document, const std::string& name);

struct CaseVerdict {
  enum class Says { pass, fail, undecided } says = Says::undecided;
  std::string blamed;           // a tensor's id or a module; empty: nobody
  std::optional<double> score;  // the larger, the more suspect
};
using CaseVerdicts = std::map<std::string, CaseVerdict>;
// Of lines, each a JSON object with `case` and `verdict`, and if it likes `blamed` and `score`.
CaseVerdicts verdicts_from(const std::string& lines, const Labels& labels, const std::string& name);

nlohmann::json json_of(const Share& share);  // with the interval at 95 %; null where `of` is 0

// What scores say, whatever verdicts do.
struct Ranking {
  double area = 0;  // under the ROC curve: a buggy case ranks above a healthy one; ties are half
  double threshold =
      0;  // the smallest above which at most so many healthy cases lie as are allowed
  Share false_alarms, detected;  // above it
};

struct Score {
  Share detected, false_alarms;
  Share undecided_buggy, undecided_healthy;
  Share blamed_exactly, blamed_module;  // of the cases that were detected
  Share silent;                         // buggy cases in which no bit changed, and that fail
  std::vector<std::string> missing;     // cases without a verdict
  std::vector<std::string> missed;      // bugs of cases that passed
  std::size_t without_score = 0;        // verdicts that have none
  std::optional<Ranking> ranking;       // absent unless all that count have a score
};
// `level`: share of healthy cases that may lie above the threshold.
Score score_of(const Labels& labels, const CaseVerdicts& verdicts, double level);

}  // namespace plumb::experiments
