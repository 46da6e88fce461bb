#include "paper_repro/trials.hpp"

#include <fmt/format.h>

#include <map>

#include "paper_repro/growth.hpp"

namespace plumb::paper_repro {

Trials trials_of(const Rows& rows, const std::string& rule) {
  Trials seen;
  std::map<std::string, bool> always;
  for (const Row& row : where(rows, {{"rule", rule}})) {
    const bool detected = row.yes("detected") || row.yes("structure");
    for (Share* share : {&seen.detected, &seen.blamed, &seen.accused}) ++share->of;
    seen.detected.hits += detected ? 1 : 0;
    seen.blamed.hits += row.yes("blamed_right") ? 1 : 0;
    seen.accused.hits += row.yes("false_alarm") ? 1 : 0;
    const auto [place, is_new] = always.try_emplace(row["paper_bug"], true);
    place->second = place->second && detected;
  }
  seen.bugs = always.size();
  for (const auto& [bug, in_all] : always) seen.always += in_all ? 1 : 0;
  return seen;
}

std::string table_by_bug(const Rows& rows, const std::vector<std::string>& rules) {
  std::vector<std::string> heading{"bug", "match", "cards"};
  for (const std::string& rule : rules) {
    heading.push_back(rule + ": detected, with structure");
    heading.push_back("blamed exactly, by itself");
  }
  std::vector<std::vector<std::string>> lines;
  for (const std::string& bug : values_of(rows, "paper_bug")) {
    const Rows of_bug = where(rows, {{"paper_bug", bug}});
    std::vector<std::string> line{bug, of_bug.front()["match"],
                                  fmt::format("{}", fmt::join(values_of(of_bug, "bug"), ", "))};
    for (const std::string& rule : rules) {
      const Trials seen = trials_of(of_bug, rule);
      line.push_back(fmt::format("{} of {}", seen.detected.hits, seen.detected.of));
      line.push_back(std::to_string(seen.blamed.hits));
    }
    lines.push_back(line);
  }
  return table(heading, lines);
}

}  // namespace plumb::paper_repro
