// Does one step find each bug of the paper's table, and blame the module that it is in? By the
// default rules, by the paper's, and by those of its adopter; and what would the paper's rule see at
// a margin at which it accuses no more healthy runs than ours?
#include <algorithm>

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
};

}  // namespace plumb::experiments
