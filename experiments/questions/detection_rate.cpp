// Which planted bugs does each rule notice, whom does it blame, and when does it cry wolf? As rules
// are given, and those of sizes at a margin at which they accuse no more healthy runs than ours.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "experiments/equal_alarms.hpp"
#include "experiments/experiment.hpp"
#include "experiments/scene.hpp"
#include "experiments/small.hpp"

namespace plumb::experiments {
namespace {

constexpr int seeds = 5;
constexpr std::size_t keys_of_a_run = 6;
const std::vector<std::string> rules{default_rules, "perturbation", "depth-law",
                                     "flat",        "assert-close", structure_alone};

Table::Row key_of(const Bug& bug, const std::string& family, const std::string& weights, int seed) {
  return {std::string(bug.id),
          std::string(name_of(bug.kind)),
          family,
          weights,
          std::string(bug.needs.recipe),
          std::to_string(seed)};
}

Table::Row with(Table::Row key, const std::string& rule) {
  key.push_back(rule);
  return key;
}

Config config_of_row(const Table::Row& key) {
  Config config = small_model(key[2]);
  config.micro_batches = 2;
  config.seed = std::stoull(key[5]);
  find_bug(key[0]).needs.complete(config);
  return config;
}

// What the trials of one scene have in common.
std::string scene_of(const Table::Row& key) {
  const Bug& bug = find_bug(key[0]);
  std::string name =
      fmt::format("{} {} {} {}", key[3], bug.needs.layout, bug.needs.recipe, bug.in_the_next_step);
  for (const auto& [setting, value] : settings_of(config_of_row(key)))
    name += " " + setting + value;
  return name;
}

void judge_all(Table& rows, LastScene& scenes, const Table::Row& key, const Bug& bug,
               const Effort& effort) {
  const Config config = config_of_row(key);
  Scene& scene = scenes.of(scene_of(key), [&] {
    const Start start = small_start(config, find_recipe(std::string(bug.needs.recipe)),
                                    parse_layout(std::string(bug.needs.layout)), key[3], effort);
    return std::make_unique<Scene>(start, bug.in_the_next_step, ways_of(rules));
  });
  const std::vector<Trial> trials = scene.trials(planted(bug, {}, config));
  std::vector<Table::Row> group;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    Table::Row row = with(key, rules[i]);
    row.push_back(cell(trials[i].effect));
    for (const std::string& text : cells_of(rules[i], trials[i])) row.push_back(text);
    group.push_back(row);
  }
  rows.add_group(group);
}

// Those of one scene behind each other, as the first of each comes in the catalogue.
std::vector<Table::Row> keys_of_seed(int seed) {
  std::vector<std::pair<std::string, std::vector<Table::Row>>> scenes;
  for (const Bug* bug : all_bugs()) {
    for (const Family base : bug->needs.families) {
      for (const std::string weights : {"random", "trained"}) {
        Table::Row key = key_of(*bug, bug->needs.family(base), weights, seed);
        const std::string name = scene_of(key);
        auto scene = std::ranges::find(scenes, name, &decltype(scenes)::value_type::first);
        if (scene == scenes.end()) scene = scenes.insert(scene, {name, {}});
        scene->second.push_back(std::move(key));
      }
    }
  }
  std::vector<Table::Row> keys;
  for (auto& [name, of_scene] : scenes) keys.insert(keys.end(), of_scene.begin(), of_scene.end());
  return keys;
}

void run(Table& rows, const Effort& effort) {
  LastScene scenes;
  for (int seed = 1; seed <= seeds * effort.scale; ++seed) {
    for (const Table::Row& key : keys_of_seed(seed)) {
      if (effort.out_of_time()) return;
      if (rows.settled(with(key, rules.back()))) continue;
      judge_all(rows, scenes, key, find_bug(key[0]), effort);
      effort.progress(key[0] + " " + key[2] + " " + key[3] + " seed " + key[5]);
    }
  }
}

void add_rates(Table& out, const Table::Row& key, const std::vector<Judgement>& all) {
  const bool by_default = key[2] == default_rules;
  const auto count = [&](const auto& is) { return std::to_string(std::ranges::count_if(all, is)); };
  Table::Row row = key;
  row.insert(row.end(),
             {std::to_string(all.size()), count([](const Judgement& o) { return o.accused; }),
              count([](const Judgement& o) { return o.detected; }),
              count([](const Judgement& o) { return o.found(); }),
              count([](const Judgement& o) { return o.blamed; }),
              count([&](const Judgement& o) { return o.blamed_with_structure(by_default); })});
  out.add(row);
}

// By rule, of one kind of bug and one kind of weights.
using Judgements = std::map<std::string, std::vector<Judgement>>;

std::map<std::pair<std::string, std::string>, Judgements> by_cell(const Table& rows) {
  const std::size_t of_rule = rows.column("rule");
  const std::set<Table::Row> blames = blamed_by_structure(rows, keys_of_a_run);
  std::map<std::pair<std::string, std::string>, Judgements> cells;
  for (const Table::Row& row : rows.rows()) {
    if (row[of_rule] == structure_alone) continue;
    const Judgement o = judgement_of(rows, row, blames, keys_of_a_run);
    for (const std::string& kind : {std::string("all"), row[rows.column("kind")]}) {
      for (const std::string& weights : {std::string("all"), row[rows.column("weights")]}) {
        cells[{kind, weights}][row[of_rule]].push_back(o);
      }
    }
  }
  return cells;
}

// The margin at which a rule accuses as few healthy runs as the default rules is one of all runs on
// such weights, not one of a kind of bug: nobody knows the kind beforehand.
Table rates(const Table& rows) {
  Table out({"kind", "weights", "rule", "at", "margin", "trials", "healthy_accused", "detected",
             "detected_or_structure", "blamed_right", "blamed_right_with_structure"},
            4);
  const auto cells = by_cell(rows);
  for (const auto& [of, by_rule] : cells) {
    const Judgements& of_all = cells.at({"all", of.second});
    if (!of_all.contains(default_rules)) continue;
    for (const std::string& rule : rules) {
      if (!by_rule.contains(rule)) continue;
      std::vector<Judgement> all = by_rule.at(rule);
      add_rates(out, {of.first, of.second, rule, "as given", cell(given_margin(rule))}, all);
      if (rule == default_rules) continue;
      const double margin = margin_for(of_all.at(rule), accused_of(of_all.at(default_rules)));
      for (Judgement& o : all) o = at_margin(o, margin);
      add_rates(out, {of.first, of.second, rule, "our false alarms", cell(margin)}, all);
    }
  }
  return out;
}

std::vector<std::string> columns() {
  std::vector<std::string> all = {"bug",    "kind", "family", "weights",
                                  "recipe", "seed", "rule",   "effect"};
  all.insert(all.end(), columns_of_judgements.begin(), columns_of_judgements.end());
  return all;
}

}  // namespace

extern const Experiment detection_rate{
    .name = "detection-rate",
    .question = "Which planted bugs does each rule notice, and when does it cry wolf?",
    .columns = columns(),
    .keys = 7,
    .run = run,
    .trained_states = trained_small_states,
    .rates = rates,
    .shares = scene_of,
};

}  // namespace plumb::experiments
