// Which planted bugs does each rule notice, whom does it blame, and when does it cry wolf?
#include <algorithm>

#include "experiments/experiment.hpp"
#include "experiments/said.hpp"
#include "model/data/text.hpp"

namespace plumb::experiments {
namespace {

const std::vector<std::string> rules{default_rules, "perturbation", "flat", "assert-close"};

Table::Row row_of(const std::vector<std::string>& key, const std::string& rule, const Trial& t) {
  const Said said = said_by(rule, t);
  const auto by_bug = std::ranges::count_if(said.broken, [&](const auto& id) {
    return std::ranges::find(said.healthy, id) == said.healthy.end();
  });
  Table::Row row = key;
  for (const std::string& text :
       {rule, yes(t.reached), yes(t.changed), cell(t.effect), yes(said.structure),
        yes(!said.broken.empty()), std::to_string(said.broken.size()), std::to_string(by_bug),
        said.blamed.empty() ? "-" : said.blamed, yes(said.blamed == t.bites_at),
        yes(said.false_alarm), std::to_string(said.healthy.size())}) {
    row.push_back(text);
  }
  return row;
}

void judge_all(Table& rows, const std::vector<std::string>& key, const Start& start,
               const Bug& bug) {
  const std::vector<Trial> trials = trials_by(rules, start, bug);
  std::vector<Table::Row> group;
  for (std::size_t i = 0; i < trials.size(); ++i) group.push_back(row_of(key, rules[i], trials[i]));
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
