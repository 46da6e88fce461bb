#include "trace/finding.hpp"

#include <algorithm>

#include "trace/statistics.hpp"

namespace plumb::trace {

std::string rule_of(const std::string& statistic) {
  const bool of_twins = std::ranges::any_of(
      all_statistics, [&](const Statistic s) { return name_of(s) == statistic; });
  return of_twins ? "twins" : statistic;
}

bool is_wrong_by_itself(const Finding& f) {
  return f.statistic == "replay" || (f.statistic == "structure" && !f.may_follow);
}

}  // namespace plumb::trace
