#include "trace/report/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

namespace plumb {
namespace {

std::string ratio_text(double ratio) {
  return std::isinf(ratio) ? "exact" : fmt::format("{:.3g}", ratio);
}

std::string headline(const Verdict& v) {
  switch (v.exit_code()) {
    case 0:
      return fmt::format("verdict: PASS, rounding explains every difference in {} tensors",
                         v.lines.size());
    case 1:
      return fmt::format("verdict: FAIL, {} findings in {} tensors", v.findings.size(),
                         v.lines.size());
    default:
      return "verdict: INCONCLUSIVE, nothing that was judged could have failed";
  }
}

nlohmann::json number_or_null(double x) {
  return std::isfinite(x) ? nlohmann::json(x) : nlohmann::json(nullptr);
}

}  // namespace

std::string text_report(const Verdict& v, std::size_t worst) {
  std::string out = headline(v) + "\n";
  if (!v.blamed.empty()) out += fmt::format("blamed: {}\nby: {}\n", v.blamed, v.blamed_by);
  std::size_t shown = 0;
  for (const Finding& f : v.findings) {
    if (++shown > worst) {
      out += fmt::format("  ... and {} more findings\n", v.findings.size() - worst);
      break;
    }
    out += fmt::format("  {:<44} {:<9} ratio {:>8}  {}\n", f.id, f.statistic, ratio_text(f.ratio),
                       f.detail);
  }
  std::vector<Line> lines = v.lines;
  std::stable_sort(lines.begin(), lines.end(),
                   [](const Line& a, const Line& b) { return a.ratio > b.ratio; });
  out += "closest to their tolerance (ratio = error / tolerance, at most 1 passes):\n";
  for (std::size_t i = 0; i < std::min(worst, lines.size()); ++i) {
    out += fmt::format("  {:<44} {:<9} ratio {:>8}  relative difference {:.2e}\n", lines[i].id,
                       lines[i].statistic, ratio_text(lines[i].ratio), lines[i].relative);
  }
  if (v.tests > 0) {
    out += fmt::format(
        "power: {} tests; a scale error of {:.2g} in a typical tensor would have been flagged; "
        "{} tensors are mostly noise\n",
        v.tests, v.smallest_scale, v.vacuous);
  }
  if (!v.undecided.empty()) {
    out += fmt::format("undecided: {} tensors differ in one row at a rounding boundary, first {}\n",
                       v.undecided.size(), v.undecided.front().id);
  }
  for (std::size_t i = 0; i < std::min<std::size_t>(v.not_judged.size(), 3); ++i) {
    out += "not judged: " + v.not_judged[i] + "\n";
  }
  return out;
}

std::string json_lines(const Verdict& v) {
  using nlohmann::json;
  std::string out;
  out += json{{"type", "verdict"},
              {"exit_code", v.exit_code()},
              {"findings", v.findings.size()},
              {"undecided", v.undecided.size()},
              {"tensors", v.lines.size()},
              {"tests", v.tests},
              {"mostly_noise", v.vacuous},
              {"blamed", v.blamed},
              {"blamed_by", v.blamed_by},
              {"smallest_scale", number_or_null(v.smallest_scale)}}
             .dump() +
         "\n";
  const auto findings = [&](const char* type, const std::vector<Finding>& list) {
    for (const Finding& f : list) {
      out += json{{"type", type},
                  {"id", f.id},
                  {"statistic", f.statistic},
                  {"ratio", number_or_null(f.ratio)},
                  {"detail", f.detail}}
                 .dump() +
             "\n";
    }
  };
  findings("finding", v.findings);
  findings("undecided", v.undecided);
  for (const Line& l : v.lines) {
    out += json{{"type", "tensor"},
                {"id", l.id},
                {"statistic", l.statistic},
                {"ratio", number_or_null(l.ratio)},
                {"relative", number_or_null(l.relative)}}
               .dump() +
           "\n";
  }
  return out;
}

void write_report(const Verdict& verdict, const std::string& file) {
  std::string text;
  if (file.ends_with(".jsonl")) {
    text = json_lines(verdict);
  } else if (file.ends_with(".txt") || file.ends_with(".md")) {
    text = (file.ends_with(".md") ? "```\n" : "") + text_report(verdict, 50) +
           (file.ends_with(".md") ? "```\n" : "");
  } else {
    throw Failure("report '" + file + "' has no known suffix; choose .txt, .md or .jsonl");
  }
  std::ofstream out(file);
  out << text;
  out.close();
  if (!out)
    throw Failure("cannot write the report " + file + "; choose a place that can be written");
}

}  // namespace plumb
