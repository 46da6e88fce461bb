#include "experiments/said.hpp"

#include <algorithm>
#include <cmath>

namespace plumb::experiments {

std::vector<CheckOptions> ways_of(const std::vector<std::string>& rules,
                                  const std::string& unseen) {
  std::vector<CheckOptions> ways(rules.size());
  for (std::size_t i = 0; i < ways.size(); ++i) {
    ways[i].says_where = false;
    if (rules[i] == default_rules) continue;
    ways[i].rules = {rules[i] == structure_alone ? "flat" : rules[i]};  // which is cheap
    if (rules[i] == structure_alone) continue;
    ways[i].skip = unseen;
  }
  return ways;
}

std::vector<Trial> trials_by(const std::vector<std::string>& rules, const Start& start,
                             const Bug& bug, const std::string& unseen) {
  return run_trials(start, bug, {}, ways_of(rules, unseen));
}

// Ids of findings that structure makes, or of the others.
static std::vector<std::string> found(const Verdict& v, bool by_structure) {
  std::vector<std::string> ids;
  for (const Finding& f : v.findings) {
    if ((f.statistic == "structure") == by_structure) ids.push_back(f.id);
  }
  return ids;
}

Said said_by(const std::string& rule, const Trial& trial) {
  const bool alone = rule == structure_alone;
  Said said;
  said.broken = found(trial.broken, alone);
  said.healthy = found(trial.healthy, alone);
  said.structure = !found(trial.broken, true).empty();
  said.false_alarm = alone ? !said.healthy.empty() : !trial.healthy.findings.empty();
  if (rule == default_rules) {
    said.blamed = trial.broken.blamed;
  } else if (!said.broken.empty()) {
    said.blamed = said.broken.front();
  }
  return said;
}

Standing standing(const Verdict& verdict, const std::string& id) {
  Standing seen;
  for (const Line& line : verdict.lines) {
    if (line.id == id) {
      seen.before = seen.largest;
      seen.there = line.ratio;
    }
    seen.largest = std::max(seen.largest, line.ratio);
    if (std::isfinite(line.ratio)) seen.finite = std::max(seen.finite, line.ratio);
  }
  return seen;
}

std::string module_of(const std::string& id) {
  std::string name = id.substr(0, id.rfind('/'));
  const std::size_t batch = name.find('/');
  if (batch != name.npos && name.front() == 'm') name = name.substr(batch + 1);
  for (const std::string of : {".weight", ".bias", ".lookup"}) {
    if (name.ends_with(of)) return name.substr(0, name.size() - of.size());
  }
  return name;
}

}  // namespace plumb::experiments
