#include "trace/report/tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "number/words.hpp"

namespace plumb::trace {
namespace {

// Findings by tensor, of one step.
std::multimap<std::string, const Finding*> by_tensor(const Verdict& v) {
  std::multimap<std::string, const Finding*> all;
  for (const Finding& f : v.findings) all.emplace(f.id, &f);
  return all;
}

// The first finding of each tensor that is neither accused nor acquitted.
std::map<std::string, const Finding*> undecided_of(const Verdict& v) {
  std::map<std::string, const Finding*> all;
  for (const Finding& f : v.undecided) all.emplace(f.id, &f);
  return all;
}

// Ids that have a line, and those that have a finding alone.
std::vector<std::string> ids_of(const Verdict& v) {
  std::vector<std::string> ids;
  std::set<std::string> known;
  for (const Line& line : v.lines) {
    if (known.insert(line.id).second) ids.push_back(line.id);
  }
  for (const Finding& f : v.findings) {
    if (known.insert(f.id).second) ids.push_back(f.id);
  }
  return ids;
}

// A field of RFC 4180.
std::string field(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

// U+FFFE and U+FFFF, which XML 1.0 cannot hold.
bool is_no_character(const std::string& text, std::size_t at) {
  const std::string three = text.substr(at, 3);
  return three == "\xef\xbf\xbe" || three == "\xef\xbf\xbf";
}

std::string xml(const std::string& text) {
  std::string safe;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_no_character(text, i)) {
      safe += ' ';
      i += 2;
    } else if (c == '&') {
      safe += "&amp;";
    } else if (c == '<') {
      safe += "&lt;";
    } else if (c == '>') {
      safe += "&gt;";
    } else if (c == '"') {
      safe += "&quot;";
    } else if (static_cast<unsigned char>(c) < 0x20) {  // XML 1.0 cannot hold it
      safe += ' ';
    } else {
      safe += c;
    }
  }
  return safe;
}

// Relative difference, the same in decibels, cosine, largest difference, p.
std::string sizes_of(const Line& l) {
  return fmt::format("{:.6g},{},{},{:.6g},{}", l.relative,
                     std::isfinite(l.decibels()) ? fmt::format("{:.2f}", l.decibels()) : "",
                     std::isfinite(l.cosine) ? fmt::format("{:.12g}", l.cosine) : "", l.largest,
                     l.p ? fmt::format("{:.6g}", *l.p) : "");
}

// In Markdown: text, and code between backticks. A table's cells end at '|'.
std::string plain(const std::string& text) {
  std::string safe;
  for (const char c : text) safe += c == '|' ? "\\|" : c == '<' ? "&lt;" : std::string(1, c);
  return safe;
}
std::string code(const std::string& text) {
  std::string safe;
  for (const char c : text) safe += c == '|' ? "\\|" : c == '`' ? "'" : std::string(1, c);
  return "`" + safe + "`";
}

void add_suite(const StepVerdict& step, std::string& out) {
  const Verdict& v = step.verdict;
  const auto findings = by_tensor(v);
  const auto undecided = undecided_of(v);
  const std::vector<std::string> ids = ids_of(v);
  std::set<std::string> not_judged;
  for (const Line& line : v.lines) {
    if (!line.judged) not_judged.insert(line.id);
  }
  const std::string suite = step.step > 0 ? fmt::format("step {}", step.step) : "check";
  std::string cases;
  std::size_t failures = 0, skipped = v.not_judged.size();
  for (const std::string& id : ids) {
    const auto [first, last] = findings.equal_range(id);
    cases += fmt::format("    <testcase classname=\"plumb.{}\" name=\"{}\"", xml(suite), xml(id));
    if (first == last && undecided.contains(id)) {
      ++skipped;
      cases += fmt::format("><skipped message=\"undecided: {}\"/></testcase>\n",
                           xml(undecided.at(id)->detail));
      continue;
    }
    if (first == last && not_judged.contains(id)) {
      ++skipped;
      cases +=
          "><skipped message=\"none of the rules that were asked for judges it\"/></testcase>\n";
      continue;
    }
    if (first == last) {
      cases += "/>\n";
      continue;
    }
    cases += ">\n";
    ++failures;
    for (auto f = first; f != last; ++f) {
      cases += fmt::format("      <failure type=\"{}\" message=\"ratio {}\">{}</failure>\n",
                           xml(f->second->statistic), ratio_text(f->second->ratio),
                           xml(f->second->detail));
    }
    cases += "    </testcase>\n";
  }
  for (const NotJudged& one : v.not_judged) {
    cases += fmt::format(
        "    <testcase classname=\"plumb.{}\" name=\"not judged: {}\"><skipped/></testcase>\n",
        xml(suite), xml(one.text()));
  }
  const bool leaves_out = v.not_looked_at > 0;
  if (leaves_out) {
    ++skipped;
    cases += fmt::format(
        "    <testcase classname=\"plumb.{}\" name=\"not looked at: {} that --only or --skip leaves "
        "out\"><skipped/></testcase>\n",
        xml(suite), how_many(v.not_looked_at, "tensor"));
  }
  // A verdict that could not have failed is no pass: CI shows it as an error.
  const bool open = v.exit_code() == 3;
  if (open) {
    cases += fmt::format(
        "    <testcase classname=\"plumb.{}\" name=\"verdict\"><error "
        "message=\"{}\"/></testcase>\n",
        xml(suite), xml(headline(v)));
  }
  out += fmt::format(
      "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\">\n{}"
      "  </testsuite>\n",
      xml(suite), ids.size() + v.not_judged.size() + (leaves_out ? 1 : 0) + (open ? 1 : 0),
      failures, open ? 1 : 0, skipped, cases);
}

}  // namespace

std::string csv_report(const std::vector<StepVerdict>& steps) {
  std::string out = "step,id,statistic,ratio,relative,sqnr_db,cosine,largest,p,finding\n";
  for (const auto& [step, v] : steps) {
    const auto findings = by_tensor(v);
    const auto undecided = undecided_of(v);
    std::map<std::string, const Line*> lines;
    for (const Line& line : v.lines) lines.emplace(line.id, &line);
    for (const std::string& id : ids_of(v)) {
      const auto line = lines.find(id);
      const auto found = findings.find(id);
      const Line* l = line == lines.end() ? nullptr : line->second;
      std::string said;
      if (undecided.contains(id)) said = "undecided: " + undecided.at(id)->detail;
      if (found != findings.end()) said = found->second->detail;
      out += fmt::format("{},{},{},{},{},{}\n", step, field(id),
                         l != nullptr ? l->statistic : found->second->statistic,
                         ratio_text(l != nullptr ? l->ratio : found->second->ratio),
                         l != nullptr ? sizes_of(*l) : ",,,,", field(said));
    }
    for (const NotJudged& one : v.not_judged) {
      out += fmt::format("{},{},not judged,,,,,,,{}\n", step, field(one.id), field(one.text()));
    }
  }
  return out;
}

std::string junit_report(const std::vector<StepVerdict>& steps) {
  std::string out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n";
  for (const StepVerdict& step : steps) add_suite(step, out);
  return out + "</testsuites>\n";
}

std::string markdown_report(const std::vector<StepVerdict>& steps) {
  constexpr std::size_t most = 50;
  std::string out;
  for (const auto& [step, v] : steps) {
    out += fmt::format("# {}{}\n\n", step > 0 ? fmt::format("step {}: ", step) : "",
                       plain(headline(v)));
    if (!v.blamed.empty()) out += fmt::format("Blamed: {} by {}.\n\n", code(v.blamed), v.blamed_by);
    for (const std::string& note : v.notes) out += "- " + plain(note) + "\n";
    for (const std::string& remark : remarks_of(v)) out += "- " + plain(remark) + "\n";
    if (!v.findings.empty()) {
      out += "\n| finding | statistic | ratio | what |\n|---|---|---|---|\n";
      for (std::size_t i = 0; i < std::min(most, v.findings.size()); ++i) {
        const Finding& f = v.findings[i];
        out += fmt::format("| {} | {} | {} | {} |\n", code(f.id), f.statistic, ratio_text(f.ratio),
                           plain(f.detail));
      }
      if (v.findings.size() > most) {
        out += fmt::format("\n{} more findings: a report .jsonl, .csv or .html has all.\n",
                           v.findings.size() - most);
      }
    }
    std::vector<Line> lines = v.lines;
    std::ranges::stable_sort(lines, std::greater<>(), &Line::ratio);
    out += "\n| worst tensors | statistic | ratio | relative difference |\n|---|---|---|---|\n";
    for (std::size_t i = 0; i < std::min(most, lines.size()); ++i) {
      out += fmt::format("| {} | {} | {} | {:.2e} |\n", code(lines[i].id), lines[i].statistic,
                         ratio_text(lines[i].ratio), lines[i].relative);
    }
    out += "\n";
  }
  return out;
}

}  // namespace plumb::trace
