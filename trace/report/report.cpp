#include "trace/report/report.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "number/words.hpp"
#include "trace/report/html.hpp"
#include "trace/report/tables.hpp"
#include "trace/store/json.hpp"
#include "trace/store/unfinished.hpp"

namespace plumb::trace {

std::string ratio_text(double ratio) {
  if (std::isinf(ratio)) return "exact";
  std::string text = fmt::format("{:.3g}", ratio);
  return ratio > 1 && text == "1" ? fmt::format("{:.6g}", ratio) : text;
}

namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == words.size() ? " and " : ", ") + words[i];
  }
  return text;
}

// What a pass says depends on the rules: only two of them know what rounding does.
std::string what_passed(const Verdict& v) {
  const auto knows = [](const std::string& rule) { return rule == "twins" || rule == "replay"; };
  const std::string within = "within a tolerance that was not derived from rounding";
  if (std::ranges::none_of(v.rules, knows))
    return "every difference in " + how_many(v.judged(), "tensor") + " is " + within;
  // Those that differ, and that only another rule judged.
  const auto others = static_cast<std::size_t>(std::ranges::count_if(v.lines, [](const Line& l) {
    return l.judged && !l.by_rounding && !l.statistic.empty() && l.largest != 0;
  }));
  return "rounding explains every difference in " + how_many(v.judged() - others, "tensor") +
         (others == 0 ? "" : "; " + how_many(others, "tensor is ", "tensors are ") + within);
}

std::string power_of(const Verdict& v) {
  std::string text =
      "power (what the twins would have flagged, " + how_many(v.tests, "test") + "): ";
  if (std::isinf(v.smallest_scale)) {
    text += "no tensor that is scaled";
  } else if (v.smallest_scale > 0) {
    text += fmt::format("a typical tensor that is scaled by 1 +- {:.2g}", v.smallest_scale);
  } else {
    text += "one other bit in a typical tensor (twins are equal bit by bit)";
  }
  if (v.vacuous == 0) return text;
  return text + "; little can be said of " + how_many(v.vacuous, "tensor") +
         (v.vacuous == 1 ? ", which is mostly noise (its tolerance exceeds half of what it holds)"
                         : ", which are mostly noise (their tolerance exceeds half of what they "
                           "hold)");
}

// The first ones; the blamed tensor's before them, where it would not be among these.
void add_findings(const Verdict& v, std::size_t most, std::string& out) {
  const auto blamed = std::ranges::find_if(
      v.findings, [&](const Finding& f) { return f.id == v.blamed && f.statistic == v.blamed_by; });
  const bool late =
      blamed != v.findings.end() && static_cast<std::size_t>(blamed - v.findings.begin()) >= most;
  const auto add = [&](const Finding& f) {
    out += fmt::format("  {:<44} {:<9} ratio {:>8}  {}\n", f.id, f.statistic, ratio_text(f.ratio),
                       f.detail);
  };
  if (late) add(*blamed);
  const std::size_t first = std::min(v.findings.size(), late ? most - 1 : most);
  std::for_each_n(v.findings.begin(), first, add);
  if (v.findings.size() <= most) return;
  out += fmt::format(
      "  ... and {}: all are in a report (.jsonl), those wrong by themselves in localize\n",
      how_many(v.findings.size() - most, "more finding", "more findings"));
}

}  // namespace

std::string json_line(const char* type, const Finding& f) {
  nlohmann::json j{{"type", type},
                   {"id", f.id},
                   {"rule", rule_of(f.statistic)},
                   {"statistic", f.statistic},
                   {"ratio", number_or_null(f.ratio)},
                   {"detail", f.detail}};
  if (f.at) j["index"] = {f.at->row, f.at->column};
  if (f.value) j["value"] = number_or_null(*f.value);
  if (f.expected) j["expected"] = number_or_null(*f.expected);
  if (f.tolerance) j["tolerance"] = number_or_null(*f.tolerance);
  if (!f.term.empty()) j["term"] = f.term;
  if (!f.looks_like.empty()) j["looks_like"] = f.looks_like;
  if (f.p) j["p"] = *f.p;
  if (f.rank) j["rank"] = *f.rank;
  return j.dump();
}

namespace {

std::string why_inconclusive(const Verdict& v) {
  if (v.identical) return "a run was compared with itself";
  if (v.beside) return "the twins agree with each other, and not with the reference";
  if (v.apart) return "one twin stands apart from the others";
  if (!v.lacks.empty()) return v.lacks;
  if (!v.unsettled.empty()) {
    return how_many(v.unsettled.size(), "tensor") +
           (v.unsettled.size() == 1 ? " differs" : " differ") +
           " in one row, by a rare rounding or by a fault";
  }
  if (v.unexplained > 0) {
    const bool another = !v.earliest.empty() && v.earliest != v.farthest.first;
    return fmt::format(
        "{} by {}{:.2g} of {} size ({}{}), and no rule tells whether by rounding or by a bug",
        how_many(v.unexplained, "tensor differs", "tensors differ"),
        v.unexplained == 1 ? "" : "up to ", v.farthest.second, v.unexplained == 1 ? "its" : "their",
        v.farthest.first, another ? "; the first is " + v.earliest : "");
  }
  return "nothing that was judged could have failed";
}

// Tensors that differ and that no rule judged, by reason. What nothing explains makes it inconclusive,
// where there is no finding: then it is told as the reason of that.
std::string left_out_of(const Verdict& v) {
  std::vector<std::string> parts;
  const auto add = [&](std::size_t n, const char* one, const char* many) {
    if (n > 0) parts.push_back(how_many(n, one, many));
  };
  if (!v.findings.empty()) add(v.unexplained, "that nothing explains", "that nothing explains");
  add(v.unjudged - v.unexplained - v.of_optimizer - v.last_bits, "that may follow from these",
      "that may follow from these");
  add(v.of_optimizer, "that the optimizer made", "that the optimizer made");
  add(v.lines.size() - v.judged(), "that none of these rules judges",
      "that none of these rules judges");
  add(v.last_bits, "number by its last bit", "numbers by their last bits");
  return (parts.empty() ? "" : "; not judged, though different: " + joined(parts)) +
         (v.in_one_only == 0 ? "" : fmt::format("; allowed in one run alone: {}", v.in_one_only)) +
         (v.not_looked_at == 0 ? "" : fmt::format("; not looked at: {}", v.not_looked_at)) +
         (v.skipped == 0 ? "" : fmt::format("; findings left out by --skip: {}", v.skipped));
}

}  // namespace

std::string headline(const Verdict& v) {
  const std::string left_out = left_out_of(v);
  switch (v.exit_code()) {
    case 0:
      return "verdict: PASS by " + joined(v.rules) + ": " + what_passed(v) + left_out;
    case 1:
      return "verdict: FAIL by " + joined(v.rules) + ": " + how_many(v.findings.size(), "finding") +
             " in " + how_many(v.judged(), "tensor") + left_out;
    default:
      return "verdict: INCONCLUSIVE, " + why_inconclusive(v) + left_out;
  }
}

std::string text_report(const Verdict& v, std::size_t worst) {
  std::string out = headline(v) + "\n";
  for (const std::string& note : v.notes) out += "note: " + note + "\n";
  if (!v.blamed.empty()) out += fmt::format("blamed: {}\nby: {}\n", v.blamed, v.blamed_by);
  add_findings(v, worst, out);
  std::vector<Line> lines = v.lines;
  std::stable_sort(lines.begin(), lines.end(),
                   [](const Line& a, const Line& b) { return a.ratio > b.ratio; });
  out +=
      "worst tensors (ratio: how far off, over how far a healthy run may be; at most 1 passes):\n";
  for (std::size_t i = 0; i < std::min(worst, lines.size()); ++i) {
    out += fmt::format("  {:<44} {:<9} ratio {:>8}  relative difference {:.2e}\n", lines[i].id,
                       lines[i].statistic, ratio_text(lines[i].ratio), lines[i].relative);
  }
  for (const std::string& remark : remarks_of(v)) out += remark + "\n";
  return out;
}

std::vector<std::string> remarks_of(const Verdict& v) {
  std::vector<std::string> all;
  if (v.tests > 0) all.push_back(power_of(v));
  if (v.forced > 0) {
    all.push_back(
        fmt::format("forced: {} of {} choices fell otherwise, by less than rounding moves their "
                    "logits; the rest is judged as the candidate chose",
                    v.forced, v.decisions));
  }
  if (v.flips > 0) {
    all.push_back(fmt::format(
        "followed: {} numbers at rounding boundaries, in tensors that replay judges; twins judge "
        "the rest as the candidate rounded them",
        v.flips));
  }
  if (!v.unsettled.empty()) {
    const auto first = std::ranges::find_if(
        v.undecided, [&](const Finding& f) { return v.unsettled.contains(f.id); });
    all.push_back(fmt::format(
        "undecided: {} in one row alone, first {}: {}; a replay could tell a rare rounding from a "
        "fault, but nobody says how it, or what it is made from, was made",
        how_many(v.unsettled.size(), "tensor differs", "tensors differ"), first->id,
        first->detail));
  }
  if (v.undecided.size() > v.unsettled.size()) {
    const auto first = std::ranges::find_if(
        v.undecided, [&](const Finding& f) { return !v.unsettled.contains(f.id); });
    all.push_back(fmt::format(
        "undecided: {} in one row at a rounding boundary, first {}",
        how_many(v.undecided.size() - v.unsettled.size(), "tensor differs", "tensors differ"),
        first->id));
  }
  for (std::size_t i = 0; i < std::min<std::size_t>(v.not_judged.size(), 3); ++i) {
    all.push_back("not judged: " + v.not_judged[i].text());
  }
  if (v.not_judged.size() > 3) {
    all.push_back("not judged: " + how_many(v.not_judged.size() - 3, "more", "more") +
                  ", all of which a report .jsonl, .csv or .xml has");
  }
  return all;
}

std::string json_lines(const Verdict& v) {
  using nlohmann::json;
  std::string out;
  out += json{{"type", "verdict"},
              {"schema", "plumb-report/1"},
              {"rules", v.rules},
              {"notes", v.notes},
              {"exit_code", v.exit_code()},
              {"findings", v.findings.size()},
              {"undecided", v.undecided.size()},
              {"unsettled", v.unsettled.size()},
              {"tensors", v.lines.size()},
              {"unjudged", v.unjudged},
              {"unexplained", v.unexplained},
              {"of_optimizer", v.of_optimizer},
              {"not_asked", v.lines.size() - v.judged()},
              {"last_bits", v.last_bits},
              {"not_looked_at", v.not_looked_at},
              {"in_one_only", v.in_one_only},
              {"skipped_findings", v.skipped},
              {"tests", v.tests},
              {"mostly_noise", v.vacuous},
              {"decisions", v.decisions},
              {"forced", v.forced},
              {"followed", v.flips},
              {"blamed", v.blamed},
              {"blamed_by", v.blamed_by},
              {"smallest_scale", v.tests == 0 ? json() : number_or_null(v.smallest_scale)}}
             .dump() +
         "\n";
  const auto findings = [&](const char* type, const std::vector<Finding>& list) {
    for (const Finding& f : list) out += json_line(type, f) + "\n";
  };
  findings("finding", v.findings);
  findings("undecided", v.undecided);
  for (const NotJudged& one : v.not_judged) {
    out += json{{"type", "not_judged"}, {"id", one.id}, {"detail", one.text()}}.dump() + "\n";
  }
  for (const auto& [id, errors] : v.accuracies) {
    out += json{{"type", "accuracy"},
                {"id", id},
                {"reference", number_or_null(errors.reference)},
                {"candidate", number_or_null(errors.candidate)}}
               .dump() +
           "\n";
  }
  for (const Line& l : v.lines) {
    out += json{{"type", "tensor"},
                {"id", l.id},
                {"statistic", l.statistic},
                {"ratio", number_or_null(l.ratio)},
                {"p", l.p ? json(*l.p) : json()},
                {"relative", number_or_null(l.relative)},
                {"sqnr_db", number_or_null(l.decibels())},
                {"cosine", number_or_null(l.cosine)},
                {"largest", number_or_null(l.largest)}}
               .dump() +
           "\n";
  }
  return out;
}

// The suffixes, and how a report of each begins: its first line has this.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> forms{
    {{".html", "<!doctype html>"},
     {".jsonl", "plumb-report/1"},
     {".txt", "verdict: "},
     {".md", "verdict: "},
     {".csv", "step,id,statistic,ratio"},
     {".xml", "<?xml"}}};

// Begins as a report of that suffix does.
static bool is_report(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string first, second;
  std::getline(in, first);
  std::getline(in, second);
  if (first.empty() && second.empty()) return true;  // nothing is lost
  if (file.extension() == ".xml" && second != "<testsuites>") return false;
  return std::ranges::any_of(forms, [&](const auto& form) {
    return file.extension() == form.first && first.find(form.second) != first.npos;
  });
}

void check_report(const std::filesystem::path& file, bool over_others) {
  namespace fs = std::filesystem;
  const std::string name = file.string();
  if (std::ranges::none_of(forms, [&](const auto& f) { return name.ends_with(f.first); })) {
    throw Failure("report '" + name +
                  "' has no known suffix; choose .html, .jsonl, .txt, .md, .csv or .xml");
  }
  std::error_code error;
  const fs::file_status status = fs::symlink_status(file, error);
  const auto folder = fs::absolute(file).parent_path();
  const bool possible = !fs::exists(status) || fs::is_regular_file(status);
  if (!possible || !fs::is_directory(folder, error) || access(folder.c_str(), W_OK) != 0) {
    throw Failure("cannot write the report " + name +
                  (fs::is_symlink(status) ? ": it is a link; name a file"
                                          : "; choose a place that can be written"));
  }
  if (over_others || !fs::exists(status) || is_report(file)) return;
  throw Failure("the report " + name +
                " would replace a file that is none; name another, or force it");
}

void write_report(const std::vector<StepVerdict>& steps, const std::string& file,
                  bool over_others) {
  check_report(file, over_others);
  std::string text;
  if (file.ends_with(".html")) text = html_report(steps);
  if (file.ends_with(".md")) text = markdown_report(steps);
  if (file.ends_with(".csv")) text = csv_report(steps);
  if (file.ends_with(".xml")) text = junit_report(steps);
  for (const auto& [step, verdict] : steps) {
    if (file.ends_with(".jsonl")) text += step_line(step) + json_lines(verdict);
    if (file.ends_with(".txt")) {
      text += (steps.size() > 1 ? fmt::format("step {}: ", step) : "") + text_report(verdict, 50);
    }
  }
  write_whole(file, text);
}

std::string step_line(int step) {
  if (step == 0) return "";
  return fmt::format("{{\"type\": \"step\", \"schema\": \"plumb-report/1\", \"step\": {}}}\n",
                     step);
}

}  // namespace plumb::trace
