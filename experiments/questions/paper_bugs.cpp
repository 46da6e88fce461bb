// Does one step find each bug of the paper's table, and blame the module that it is in? By the
// default rules, by the paper's, and by those of its adopter; and what would the paper's rule see at
// a margin at which it accuses no more healthy runs than ours?
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "experiments/equal_alarms.hpp"
#include "experiments/experiment.hpp"
#include "experiments/said.hpp"
#include "experiments/small.hpp"

namespace plumb::experiments {
namespace {

constexpr int seeds = 5;
const std::vector<std::string> rules{default_rules, "perturbation", "depth-law", "flat",
                                     structure_alone};

// The paper's hooks are on modules: what a product casts inside of one is not seen.
const std::string casts = "/(grad_)?operand$";

// One bug, and what it is run in.
struct Cell {
  const Bug* bug;
  std::string family, recipe, weights;
};

// A card's own recipe; delayed scaling of FP8 besides, which is what the reports ran.
std::vector<std::string> recipes_of(const Bug& bug) {
  std::vector<std::string> all{std::string(bug.needs.recipe)};
  if (all.front() != "fp8-delayed") all.emplace_back("fp8-delayed");
  return all;
}

std::vector<Cell> cells() {
  std::vector<const Bug*> bugs;
  std::ranges::copy_if(all_bugs(), std::back_inserter(bugs),
                       [](const Bug* bug) { return bug->paper.bug != 0; });
  std::ranges::stable_sort(bugs, {}, [](const Bug* bug) { return bug->paper.bug; });
  std::vector<Cell> all;
  for (const Bug* bug : bugs) {
    for (const Family base : bug->needs.families) {
      for (const std::string& recipe : recipes_of(*bug)) {
        for (const char* weights : {"random", "trained"}) {
          all.push_back({bug, bug->needs.family(base), recipe, weights});
        }
      }
    }
  }
  return all;
}

Table::Row row_of(const std::vector<std::string>& key, const std::string& rule, const Trial& t) {
  Table::Row row = key;
  row.push_back(rule);
  for (const std::string& text : cells_of(rule, t)) row.push_back(text);
  return row;
}

std::vector<std::string> key_of(const Cell& c, int seed) {
  return {std::to_string(c.bug->paper.bug),
          std::string(name_of(c.bug->paper.match)),
          std::string(c.bug->id),
          c.family,
          c.recipe,
          c.weights,
          std::to_string(seed)};
}

Table::Row with(Table::Row key, const std::string& rule) {
  key.push_back(rule);
  return key;
}

void judge_all(Table& rows, const Cell& c, int seed, const Effort& effort) {
  Config config = small_model(c.family);
  config.micro_batches = 2;
  config.seed = static_cast<std::uint64_t>(seed);
  c.bug->needs.complete(config);
  const Start start =
      small_start(config, find_recipe(c.recipe), parse_layout(std::string(c.bug->needs.layout)),
                  c.weights, effort);
  refuse_unmet(*c.bug, start.run, 0);
  std::vector<std::string> left;
  std::ranges::copy_if(rules, std::back_inserter(left), [&](const std::string& rule) {
    return !rows.settled(with(key_of(c, seed), rule));
  });
  const std::vector<Trial> trials = trials_by(left, start, *c.bug, casts);
  std::vector<Table::Row> group;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    group.push_back(row_of(key_of(c, seed), left[i], trials[i]));
  }
  rows.add_group(group);
}

void run(Table& rows, const Effort& effort) {
  for (int seed = 1; seed <= seeds * effort.scale; ++seed) {
    for (const Cell& c : cells()) {
      if (effort.out_of_time()) return;
      const Table::Row last = with(key_of(c, seed), rules.back());
      if (rows.settled(last)) continue;
      judge_all(rows, c, seed, effort);
      effort.progress(last[2] + " " + c.family + " " + c.recipe + " " + c.weights + " seed " +
                      last[6]);
    }
  }
}

constexpr std::size_t keys_of_a_run = 7;

// By number of the bug in the paper's table.
struct OfBug {
  int bug;
  Judgement judgement;
};
std::vector<Judgement> judgements(const std::vector<OfBug>& all) {
  std::vector<Judgement> bare;
  for (const OfBug& one : all) bare.push_back(one.judgement);
  return bare;
}

void add_rates(Table& out, const Table::Row& key, const std::vector<OfBug>& all) {
  const bool by_default = key[2] == default_rules;
  std::size_t detected = 0, with_structure = 0, blamed = 0, blamed_too = 0;
  std::set<int> bugs, missed, not_blamed, not_even_so;
  for (const auto& [bug, o] : all) {
    const bool found = o.found(), right = o.blamed_with_structure(by_default);
    detected += o.detected ? 1 : 0;
    with_structure += found ? 1 : 0;
    blamed += o.blamed ? 1 : 0;
    blamed_too += right ? 1 : 0;
    bugs.insert(bug);
    if (!found) missed.insert(bug);
    if (!o.blamed) not_blamed.insert(bug);
    if (!right) not_even_so.insert(bug);
  }
  Table::Row row = key;
  for (const std::size_t n : {all.size(), accused_of(judgements(all)), detected, with_structure,
                              blamed, blamed_too, bugs.size(), bugs.size() - missed.size(),
                              bugs.size() - not_blamed.size(), bugs.size() - not_even_so.size()}) {
    row.push_back(std::to_string(n));
  }
  out.add(row);
}

// Of a cell, by rule.
using Judgements = std::map<std::string, std::vector<OfBug>>;

std::map<std::pair<std::string, std::string>, Judgements> by_cell(const Table& rows) {
  const std::size_t of_rule = rows.column("rule");
  const std::set<Table::Row> blames = blamed_by_structure(rows, keys_of_a_run);
  std::map<std::pair<std::string, std::string>, Judgements> cells;
  for (const Table::Row& row : rows.rows()) {
    if (row[of_rule] == structure_alone) continue;
    const std::string recipe = row[rows.column("recipe")].substr(0, 3) == "fp8" ? "fp8" : "bf16";
    for (const std::string& r : {std::string("all"), recipe}) {
      for (const std::string& w : {std::string("all"), row[rows.column("weights")]}) {
        cells[{r, w}][row[of_rule]].push_back(
            {std::stoi(row[0]), judgement_of(rows, row, blames, keys_of_a_run)});
      }
    }
  }
  return cells;
}

// Each rule as it is given, and those of sizes with as many false alarms as the default rules, by
// a margin of their own in each cell.
Table rates(const Table& rows) {
  Table out({"recipe", "weights", "rule", "at", "margin", "trials", "healthy_accused", "detected",
             "detected_or_structure", "blamed_right", "blamed_right_with_structure", "bugs",
             "bugs_always_detected", "bugs_always_blamed", "bugs_always_blamed_with_structure"},
            4);
  for (const auto& [of, by_rule] : by_cell(rows)) {
    if (!by_rule.contains(default_rules)) continue;
    const std::size_t ours = accused_of(judgements(by_rule.at(default_rules)));
    for (const std::string& rule : rules) {
      if (!by_rule.contains(rule)) continue;
      std::vector<OfBug> all = by_rule.at(rule);
      add_rates(out, {of.first, of.second, rule, "as given", cell(given_margin(rule))}, all);
      if (rule == default_rules) continue;
      const double margin = margin_for(judgements(all), ours);
      for (OfBug& o : all) o.judgement = at_margin(o.judgement, margin);
      add_rates(out, {of.first, of.second, rule, "our false alarms", cell(margin)}, all);
    }
  }
  return out;
}

}  // namespace

extern const Experiment paper_bugs{
    .name = "paper-bugs",
    .question =
        "Does one step find each of the fourteen bugs of TTrace's table, and blame the module it "
        "is in?",
    .columns = {"paper_bug",
                "match",
                "bug",
                "family",
                "recipe",
                "weights",
                "seed",
                "rule",
                "reached",
                "changed",
                "structure",
                "detected",
                "blamed",
                "blamed_right",
                "module_right",
                "false_alarm",
                "healthy_ratio",
                "broken_ratio",
                "healthy_finite",
                "broken_finite",
                "ratio_before",
                "ratio_where_it_bites"},
    .keys = 8,
    .run = run,
    .trained_states = trained_small_states,
    .rates = rates,
};

}  // namespace plumb::experiments
