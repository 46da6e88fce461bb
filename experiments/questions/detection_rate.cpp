// Which planted bugs does each rule notice, whom does it blame, and when does it cry wolf?
#include <algorithm>

#include "experiments/experiment.hpp"
#include "model/data/text.hpp"

namespace plumb::experiments {
namespace {

// Structure needs no rule: what a rule adds are its own findings, in dataflow order.
std::vector<std::string> own(const Verdict& v) {
  std::vector<std::string> ids;
  for (const Finding& f : v.findings) {
    if (f.statistic != "structure") ids.push_back(f.id);
  }
  return ids;
}

std::string yes(bool x) { return x ? "1" : "0"; }

constexpr const char* rules[] = {"twins,replay", "perturbation", "flat", "assert-close"};

// Ours says who is wrong by itself; a rule of sizes can only name the first that differs.
Table::Row row_of(const std::vector<std::string>& key, const std::string& rule, const Trial& t) {
  const auto broken = own(t.broken), healthy = own(t.healthy);
  const auto by_bug = std::ranges::count_if(
      broken, [&](const auto& id) { return std::ranges::find(healthy, id) == healthy.end(); });
  const std::string blamed = rule == rules[0] ? t.broken.blamed
                             : broken.empty() ? ""
                                              : broken.front();
  Table::Row row = key;
  for (const std::string& text :
       {rule, yes(t.reached), yes(t.changed), cell(t.effect),
        yes(broken.size() < t.broken.findings.size()), yes(!broken.empty()),
        std::to_string(broken.size()), std::to_string(by_bug), blamed.empty() ? "-" : blamed,
        yes(blamed == t.bites_at), yes(!t.healthy.findings.empty()),
        std::to_string(healthy.size())}) {
    row.push_back(text);
  }
  return row;
}

void judge_all(Table& rows, const std::vector<std::string>& key, const Start& start,
               const Bug& bug) {
  const Trace perturbed = run_perturbed(start, 1);
  std::vector<CheckOptions> ways(std::size(rules));
  for (std::size_t i = 0; i < ways.size(); ++i) {
    ways[i].perturbed = &perturbed;
    if (i > 0) ways[i].rules = {rules[i]};
  }
  const std::vector<Trial> trials = run_trials(start, bug, {}, ways);
  std::vector<Table::Row> group;
  for (std::size_t i = 0; i < ways.size(); ++i) group.push_back(row_of(key, rules[i], trials[i]));
  rows.add_group(group);
}

void run(Table& rows, const Effort& effort) {
  for (int seed = 1; seed <= 5 * effort.scale; ++seed) {
    for (const Bug* bug : all_bugs()) {
      for (const Family base : bug->needs.families) {
        const std::string family = bug->needs.family(base);
        for (const std::string weights : {"random", "trained"}) {
          if (effort.out_of_time()) return;
          const std::vector<std::string> key{std::string(bug->id), family, weights,
                                             std::string(bug->needs.recipe), std::to_string(seed)};
          std::vector<std::string> last = key;
          last.emplace_back("assert-close");
          if (rows.settled(last)) continue;
          const Layout layout = parse_layout(std::string(bug->needs.layout));
          const Recipe recipe = find_recipe(std::string(bug->needs.recipe));
          Config config = config_of(family);
          config.seed = static_cast<std::uint64_t>(seed);
          bug->needs.complete(config);
          const Start start = weights == "random" ? start_of(config, recipe, layout, default_text())
                                                  : effort.trained(recipe, layout, config);
          judge_all(rows, key, start, *bug);
          effort.progress(key[0] + " " + key[1] + " " + weights + " seed " + key[4]);
        }
      }
    }
  }
}

}  // namespace

extern const Experiment detection_rate{
    .name = "detection-rate",
    .question = "Which planted bugs does each rule notice, and when does it cry wolf?",
    .columns = {"bug", "family", "weights", "recipe", "seed", "rule", "reached", "changed",
                "effect", "structure", "detected", "own_findings", "not_in_healthy", "blamed",
                "blamed_right", "false_alarm", "own_false_findings"},
    .keys = 6,
    .run = run,
};

}  // namespace plumb::experiments
