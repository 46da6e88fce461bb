#include "trace/finding.hpp"

#include <algorithm>

#include "trace/statistics.hpp"

namespace plumb::trace {

std::string rule_of(const std::string& statistic) {
  const bool of_twins = std::ranges::any_of(
      all_statistics, [&](const Statistic s) { return name_of(s) == statistic; });
  return of_twins ? "twins" : statistic;
}

bool is_of_file(const Finding& f) {
  return f.statistic == "structure" && f.id.starts_with("rank_") && f.id.ends_with(".safetensors");
}

bool is_wrong_by_itself(const Finding& f) {
  return f.statistic == "replay" || (f.statistic == "structure" && !f.may_follow);
}

bool is_by_size_of_twins(const Finding& f) {
  return rule_of(f.statistic) == "twins" && f.p.value_or(1) > 0;
}

const Finding& to_blame(std::span<const Finding> findings, double sure) {
  const auto by_itself = std::ranges::find_if(findings, is_wrong_by_itself);
  if (by_itself != findings.end()) return *by_itself;
  const auto first = std::ranges::find_if(findings, [&](const Finding& f) {
    return !is_by_size_of_twins(f) || f.p.value_or(1) < sure;
  });
  return first != findings.end() ? *first : findings.front();
}

}  // namespace plumb::trace
