#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fstream>

#include "cli/colour.hpp"
#include "cli/json.hpp"
#include "cli/values.hpp"
#include "cli/verbs.hpp"
#include "experiments/corpus/score.hpp"
#include "number/outcome.hpp"
#include "number/words.hpp"
#include "trace/store/json.hpp"
#include "trace/store/read_file.hpp"

namespace plumb::cli {
namespace {

using nlohmann::json;

constexpr std::size_t most_named = 10;

std::string text_of(const Share& share) {
  const json j = json_of(share);
  if (share.of == 0) return "none to count";
  return fmt::format("{} of {} ({:.1f} %, 95 % interval {:.1f} to {:.1f} %)", share.hits, share.of,
                     100 * j["rate"].get<double>(), 100 * j["interval"][0].get<double>(),
                     100 * j["interval"][1].get<double>());
}

std::string named(const std::vector<std::string>& all) {
  const std::vector<std::string> some(
      all.begin(), all.begin() + static_cast<std::ptrdiff_t>(std::min(all.size(), most_named)));
  return listed(some) +
         (all.size() > most_named ? fmt::format(" and {} more", all.size() - most_named) : "");
}

void tell(const Score& s, double level) {
  fmt::print("detected: {}\n", text_of(s.detected));
  fmt::print("false alarms: {}\n", text_of(s.false_alarms));
  fmt::print("undecided: {} of {} buggy, {} of {} healthy\n", s.undecided_buggy.hits,
             s.undecided_buggy.of, s.undecided_healthy.hits, s.undecided_healthy.of);
  fmt::print("blamed, of those detected: the tensor in {}, the module in {}\n",
             text_of(s.blamed_exactly), text_of(s.blamed_module));
  if (s.silent.of > 0) {
    fmt::print("apart: {} without a changed bit, {} said to fail\n",
               how_many(s.silent.of, "buggy case"), s.silent.hits);
  }
  if (!s.missed.empty()) say("passed: {}\n", named(s.missed));
  if (!s.missing.empty()) {
    say("missing, in no rate: {}: {}\n", how_many(s.missing.size(), "case"), named(s.missing));
  }
  if (s.ranking) {
    fmt::print(
        "scores: area under ROC {:.3f}; above {:.4g}, which {} of {} healthy cases exceed "
        "({} allowed): {}\n",
        s.ranking->area, s.ranking->threshold, s.ranking->false_alarms.hits,
        s.ranking->false_alarms.of, level, text_of(s.ranking->detected));
  } else {
    fmt::print("scores: {}\n", s.without_score == 0 ? "healthy and buggy cases are needed"
                                                    : how_many(s.without_score, "verdict") +
                                                          " without one, so none is ranked");
  }
}

json json_of_score(const Score& s, double level) {
  json j{{"detected", json_of(s.detected)},
         {"false_alarms", json_of(s.false_alarms)},
         {"undecided",
          {{"buggy", json_of(s.undecided_buggy)}, {"healthy", json_of(s.undecided_healthy)}}},
         {"blamed", {{"tensor", json_of(s.blamed_exactly)}, {"module", json_of(s.blamed_module)}}},
         {"silent", json_of(s.silent)},
         {"missing", s.missing},
         {"passed", s.missed},
         {"without_score", s.without_score},
         {"scores", nullptr}};
  if (s.ranking) {
    j["scores"] = {{"area", s.ranking->area},
                   {"level", level},
                   {"threshold", s.ranking->threshold},
                   {"false_alarms", json_of(s.ranking->false_alarms)},
                   {"detected", json_of(s.ranking->detected)}};
  }
  return j;
}

std::string lines_in(const std::string& file) {
  const Outcome<std::string> text = read_file(file, std::uintmax_t(1) << 30);
  if (text) return *text;
  throw Failure("cannot read verdicts from " + file + ": it " + text.error().detail +
                "; name a file of JSON lines");
}

}  // namespace

void add_score(CLI::App& app, Verb& chosen) {
  auto* verb = app.add_subcommand("score", "hold a checker's verdicts against labels of a corpus");
  static std::string labels, verdicts;
  static double level = 0.01;
  static bool as_json = false;
  verb->add_option("LABELS", labels, "the labels.json of a corpus")->required();
  verb->add_option("VERDICTS", verdicts,
                   "JSON lines: case, verdict (pass, fail or undecided), blamed, score")
      ->required();
  verb->add_option("--false-alarm", level,
                   "share of healthy cases that may lie above the threshold of scores")
      ->capture_default_str()
      ->check(numbers(0, 1));
  add_json(*verb, as_json);
  verb->footer("Exit codes: 0 each case has a verdict; 3 some are missing; 2 trouble.");
  verb->callback([&chosen] {
    chosen = [] {
      const Labels known = labels_from(read_json(labels), labels);
      const Score s = score_of(known, verdicts_from(lines_in(verdicts), known, verdicts), level);
      if (as_json) {
        print_document("plumb-score/1", json_of_score(s, level));
      } else {
        tell(s, level);
      }
      return s.missing.empty() ? 0 : 3;
    };
  });
}

}  // namespace plumb::cli
