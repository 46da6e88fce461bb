// How small a fault does each rule still see? Faults of each kind in each kind of tensor on trained
// weights, powers of two; every rule as `plumb check` applies it. Beside them healthy runs of the same
// models: what a rule sees is held against whom it accuses (experiments/doses.hpp).
#include <algorithm>
#include <cmath>

#include "experiments/doses.hpp"
#include "experiments/equal_alarms.hpp"
#include "experiments/experiment.hpp"
#include "experiments/faults.hpp"
#include "experiments/said.hpp"
#include "model/plan/plan.hpp"
#include "model/spec/manifest.hpp"
#include "trace/check.hpp"
#include "trace/execute.hpp"

namespace plumb::experiments {
namespace {

constexpr double level = 1e-3;  // of false alarms in a run, of the default rules
constexpr int smallest_exponent = -20;
constexpr int faulty_batches = 4, healthy_batches = 24;

// A step of a trained model: what every rule is given, made once.
class Stage {
 public:
  explicit Stage(const Start& start)
      : start_(start),
        reference_(start),
        perturbed_(run_perturbed(start, 1)),
        candidate_{manifest_of(start.run), promise_of(start.run), {}},
        healthy_(trace::reference(*candidate_.graph, start.leaves)) {}

  const Training& run() const { return start_.run; }
  const Values& healthy() const { return healthy_; }

  // What the rules say of the run with these values in place of its own: the cells after the key.
  Table::Row said_of(const Values& wrong) const {
    Merged seen = reference_.merged();
    const Values values =
        wrong.empty() ? healthy_ : with_replaced(*candidate_.graph, healthy_, wrong);
    for (const auto& [id, tensor] : values) seen.values[id] = tensor;
    const std::vector<Verdict> all = verdicts(seen);
    const Verdict& ours = all.front();
    Table::Row cells{yes(!ours.findings.empty()), cell(standing(ours, "").largest),
                     yes(finds(ours, "twins")), yes(finds(ours, "replay"))};
    for (std::size_t i = 0; i < rules_of_sizes.size(); ++i) {
      const double largest = standing(all[i + 1], "").largest;
      cells.push_back(cell(given_margin(rules_of_sizes[i]) * largest));
    }
    return cells;
  }

 private:
  static Graph promise_of(const Training& run) {
    return plan(run.config, run.recipe, run.layout, run.step);
  }

  // By the default rules, then by each of the rules of sizes.
  std::vector<Verdict> verdicts(const Merged& seen) const {
    std::vector<std::string> rules{default_rules};
    rules.insert(rules.end(), rules_of_sizes.begin(), rules_of_sizes.end());
    std::vector<CheckOptions> ways = ways_of(rules);
    for (CheckOptions& way : ways) {
      way.false_alarm = level;
      way.seed = start_.run.config.seed;
      way.perturbed = &perturbed_;
    }
    return check_each(reference_.to_judge(), candidate_, seen, ways);
  }

  static bool finds(const Verdict& verdict, const std::string& rule) {
    return std::ranges::any_of(verdict.findings, [&](const Finding& f) {
      return rule_of(f.statistic) == rule || f.statistic == "structure";
    });
  }

  const Start& start_;
  ExecutedReference reference_;
  Trace perturbed_;
  Trace candidate_;  // its manifest and promise; the values are `healthy_`, or faulty ones
  Values healthy_;
};

// A fault that rounding undoes is none.
bool changes_a_bit(const Values& healthy, const std::optional<Values>& wrong) {
  return wrong && std::ranges::any_of(*wrong, [&](const auto& tensor) {
           return !same_bits(*tensor.second, *healthy.at(tensor.first));
         });
}

// The rows of one fault, the largest first; of none, the one row of the healthy run.
std::vector<Table::Row> rows_of(const Stage& stage, const Table::Row& key) {
  std::vector<Table::Row> group;
  const auto add = [&](double size, const std::optional<Values>& wrong, bool exists) {
    Table::Row row = key;
    row.push_back(cell(size));
    const Table::Row said =
        exists ? stage.said_of(*wrong) : Table::Row(columns_of_doses().size() - row.size(), "-");
    row.insert(row.end(), said.begin(), said.end());
    group.push_back(std::move(row));
  };
  if (key[0] == no_fault) {
    add(0, Values(), true);
    return group;
  }
  const Fault& fault = find_fault(key[0]);
  for (int e = 0; e >= smallest_exponent; --e) {
    const double size = std::ldexp(1.0, e);
    const std::optional<Values> wrong = fault.made(stage.run(), stage.healthy(), size);
    add(size, wrong, changes_a_bit(stage.healthy(), wrong));
  }
  return group;
}

// Keys of what is not there yet in one batch, without the size.
std::vector<Table::Row> missing(const Table& rows, const Table::Row& model, int seed, int scale) {
  std::vector<std::pair<std::string, double>> wanted{{no_fault, 0}};
  if (seed <= faulty_batches * scale) {
    for (const Fault& fault : all_faults()) {
      wanted.emplace_back(fault.name, std::ldexp(1.0, smallest_exponent));
    }
  }
  std::vector<Table::Row> keys;
  for (const auto& [fault, last] : wanted) {
    const Table::Row key{fault, model[0], model[1], std::to_string(seed)};
    Table::Row of_last = key;
    of_last.push_back(cell(last));
    if (!rows.settled(of_last)) keys.push_back(key);
  }
  return keys;
}

void one_batch(Table& rows, const Effort& effort, Family family, const Recipe& recipe, int seed) {
  const auto wanted = missing(rows, {name_of(family), recipe.id}, seed, effort.scale);
  if (wanted.empty()) return;
  Config config = config_of(name_of(family));
  config.seed = static_cast<std::uint64_t>(seed);
  const Start start = effort.trained(recipe, parse_layout("dp2,tp2"), config);
  const Stage stage(start);
  for (const Table::Row& key : wanted) {
    if (effort.out_of_time()) return;
    effort.progress(key[0] + " " + key[1] + " " + key[2] + " seed " + key[3]);
    rows.add_group(rows_of(stage, key));
  }
}

std::string stage_of(const Table::Row& key) { return key[1] + " " + key[2] + " " + key[3]; }

void run(Table& rows, const Effort& effort) {
  for (int seed = 1; seed <= healthy_batches * effort.scale; ++seed) {
    for (const Family family : {Family::llama, Family::gpt}) {
      for (const char* recipe : {"bf16", "fp8-current"}) {
        one_batch(rows, effort, family, find_recipe(recipe), seed);
      }
    }
  }
}

}  // namespace

extern const Experiment smallest_fault{
    .name = "smallest-fault",
    .question = "How small a fault does each rule still see, on trained weights?",
    .columns = columns_of_doses(),
    .keys = 5,
    .run = run,
    .rates = rates_of_doses,
    .shares = stage_of,
};

}  // namespace plumb::experiments
