// Does one step find each bug of the paper's table, and blame the module that it is in? By the
// default rules, by the paper's, and by those of its adopter; and what would the paper's rule see at
// a margin at which it accuses no more healthy runs than ours?
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

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

// Of a rule of sizes under a margin of 1; what a rule has for a margin is a factor of all ratios.
double times(const std::string& rule) { return rule == "perturbation" ? CheckOptions().margin : 1; }

Table::Row row_of(const std::vector<std::string>& key, const std::string& rule, const Trial& t) {
  const Said said = said_by(rule, t);
  const Standing healthy = standing(t.healthy, t.bites_at), broken = standing(t.broken, t.bites_at);
  Table::Row row = key;
  for (const std::string& text :
       {rule, yes(t.reached), yes(t.changed), yes(said.structure), yes(!said.broken.empty()),
        said.blamed.empty() ? "-" : said.blamed, yes(said.blamed == t.bites_at),
        yes(module_of(said.blamed) == module_of(t.bites_at)), yes(said.false_alarm)}) {
    row.push_back(text);
  }
  for (const double ratio : {healthy.largest, broken.largest, healthy.finite, broken.finite,
                             broken.before, broken.there}) {
    row.push_back(rule == structure_alone ? "-" : cell(times(rule) * ratio));
  }
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

// A row, as rates need it.
struct Outcome {
  int bug = 0;
  bool structure = false, detected = false, blamed = false, accused = false;
  bool structure_blames = false;  // where the bug bites
  double healthy = 0, broken = 0, before = 0, there = 0;
};

// `blames`: keys of runs in which structure alone blames where the bug bites.
Outcome outcome_of(const Table& rows, const Table::Row& row, const std::set<Table::Row>& blames) {
  const auto is = [&](const char* name) { return row[rows.column(name)] == "1"; };
  const auto number = [&](const char* name) { return std::stod(row[rows.column(name)]); };
  Outcome o;
  o.bug = std::stoi(row[0]);
  o.structure = is("structure");
  o.detected = is("detected");
  o.blamed = is("blamed_right");
  o.accused = is("false_alarm");
  o.structure_blames = blames.contains({row.begin(), row.begin() + 7});
  o.healthy = number("healthy_ratio");
  o.broken = number("broken_ratio");
  o.before = number("ratio_before");
  o.there = number("ratio_where_it_bites");
  return o;
}

// The same under another margin.
Outcome at_margin(Outcome o, double margin) {
  o.detected = o.broken > margin;
  o.blamed = o.there > margin && o.before <= margin;
  o.accused = o.healthy > margin;
  return o;
}

// The least margin at which no more than `allowed` healthy runs are accused. Infinite: there is none.
double margin_for(const std::vector<Outcome>& all, std::size_t allowed) {
  std::vector<double> ratios;
  for (const Outcome& o : all) ratios.push_back(o.healthy);
  std::ranges::sort(ratios, std::greater());
  return allowed < ratios.size() ? ratios[allowed] : 0;
}

std::size_t accused_of(const std::vector<Outcome>& all) {
  return static_cast<std::size_t>(std::ranges::count_if(all, &Outcome::accused));
}

// The default rules have structure's blame already.
bool blamed_with_structure(const Outcome& o, bool by_default) {
  return o.structure && !by_default ? o.structure_blames : o.blamed;
}

void add_rates(Table& out, const Table::Row& key, const std::vector<Outcome>& all) {
  const bool by_default = key[2] == default_rules;
  std::size_t detected = 0, with_structure = 0, blamed = 0, blamed_too = 0;
  std::set<int> bugs, missed, not_blamed, not_even_so;
  for (const Outcome& o : all) {
    const bool found = o.detected || o.structure, right = blamed_with_structure(o, by_default);
    detected += o.detected ? 1 : 0;
    with_structure += found ? 1 : 0;
    blamed += o.blamed ? 1 : 0;
    blamed_too += right ? 1 : 0;
    bugs.insert(o.bug);
    if (!found) missed.insert(o.bug);
    if (!o.blamed) not_blamed.insert(o.bug);
    if (!right) not_even_so.insert(o.bug);
  }
  Table::Row row = key;
  for (const std::size_t n : {all.size(), accused_of(all), detected, with_structure, blamed,
                              blamed_too, bugs.size(), bugs.size() - missed.size(),
                              bugs.size() - not_blamed.size(), bugs.size() - not_even_so.size()}) {
    row.push_back(std::to_string(n));
  }
  out.add(row);
}

// Of a cell, by rule.
using Outcomes = std::map<std::string, std::vector<Outcome>>;

std::map<std::pair<std::string, std::string>, Outcomes> by_cell(const Table& rows) {
  const std::size_t of_rule = rows.column("rule"), right = rows.column("blamed_right");
  std::set<Table::Row> blames;
  for (const Table::Row& row : rows.rows()) {
    if (row[of_rule] == structure_alone && row[right] == "1") {
      blames.insert({row.begin(), row.begin() + 7});
    }
  }
  std::map<std::pair<std::string, std::string>, Outcomes> cells;
  for (const Table::Row& row : rows.rows()) {
    if (row[of_rule] == structure_alone) continue;
    const std::string recipe = row[rows.column("recipe")].substr(0, 3) == "fp8" ? "fp8" : "bf16";
    for (const std::string& r : {std::string("all"), recipe}) {
      for (const std::string& w : {std::string("all"), row[rows.column("weights")]}) {
        cells[{r, w}][row[of_rule]].push_back(outcome_of(rows, row, blames));
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
    const std::size_t ours = accused_of(by_rule.at(default_rules));
    for (const std::string& rule : rules) {
      if (!by_rule.contains(rule)) continue;
      std::vector<Outcome> all = by_rule.at(rule);
      add_rates(out, {of.first, of.second, rule, "as given", cell(times(rule))}, all);
      if (rule == default_rules) continue;
      const double margin = margin_for(all, ours);
      for (Outcome& o : all) o = at_margin(o, margin);
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
