// In which step does a check see the bugs that the first step does not show? Steps of one run with the
// bug, each checked from the state that a right run has reached (--every-step with --resync).
#include "experiments/experiment.hpp"
#include "experiments/said.hpp"
#include "experiments/small.hpp"
#include "model/plan/verify.hpp"

namespace plumb::experiments {
namespace {

constexpr int seeds = 5, steps = 4;

Table::Row key_of(const Bug& bug, const std::string& family, const std::string& weights, int seed,
                  int step) {
  return {std::string(bug.id),
          family,
          weights,
          std::string(bug.needs.recipe),
          std::string(bug.needs.layout),
          std::to_string(seed),
          std::to_string(step)};
}

// The verdicts of one step. The ranks of the broken run keep what they left in the step before.
Table::Row said_of(const Start& start, const Bug& bug, std::vector<StaleGradients>& stale,
                   const ExecutedReference& reference) {
  const Planted wrong = planted(bug, {}, start.run.config);
  const Candidate of_healthy = run_candidate(start, nullptr),
                  of_broken = run_candidate(start, &bug, {}, "reference", threads(), &stale);
  const Merged h = merge_verified(of_healthy.trace), b = merge_verified(of_broken.trace);
  const Trial seen = changes_of(of_healthy, of_broken, wrong, h, b);
  const Reference trusted = reference.to_judge();
  CheckOptions options;
  options.says_where = false;
  const Verdict healthy = check(trusted, of_healthy.trace, h, options);
  const Verdict broken = check(trusted, of_broken.trace, b, options);
  return {yes(seen.changed), yes(!broken.findings.empty()),
          broken.blamed.empty() ? "-" : broken.blamed, yes(broken.blamed == seen.bites_at),
          yes(!healthy.findings.empty())};
}

std::vector<Table::Row> rows_of(const Bug& bug, const std::string& family,
                                const std::string& weights, int seed, const Effort& effort) {
  Config config = small_model(family);
  config.micro_batches = 2;
  config.seed = static_cast<std::uint64_t>(seed);
  bug.needs.complete(config);
  Start start = small_start(config, find_recipe(std::string(bug.needs.recipe)),
                            parse_layout(std::string(bug.needs.layout)), weights, effort);
  std::vector<StaleGradients> stale;
  std::vector<Table::Row> rows;
  for (int step = 1; step <= steps; ++step) {
    const ExecutedReference reference(start);
    Table::Row row = key_of(bug, family, weights, seed, step);
    const Table::Row said = said_of(start, bug, stale, reference);
    row.insert(row.end(), said.begin(), said.end());
    rows.push_back(std::move(row));
    start = step_after(std::move(start), reference.merged().values);
  }
  return rows;
}

void run(Table& rows, const Effort& effort) {
  for (int seed = 1; seed <= seeds * effort.scale; ++seed) {
    for (const Bug* bug : all_bugs()) {
      if (!bug->in_the_next_step) continue;
      for (const Family base : bug->needs.families) {
        const std::string family = bug->needs.family(base);
        for (const std::string weights : {"random", "trained"}) {
          if (effort.out_of_time()) return;
          if (rows.settled(key_of(*bug, family, weights, seed, steps))) continue;
          effort.progress(std::string(bug->id) + " " + family + " " + weights + " seed " +
                          std::to_string(seed));
          rows.add_group(rows_of(*bug, family, weights, seed, effort));
        }
      }
    }
  }
}

Table rates(const Table& rows) {
  return counted(rows, {"bug", "step"}, "runs", {"changed", "found", "blamed_right", "false_alarm"},
                 {"changed", "found", "blamed_right", "healthy_accused"});
}

}  // namespace

extern const Experiment late_bugs{
    .name = "late-bugs",
    .question = "In which step does a check see the bugs that the first step does not show?",
    .columns = {"bug", "family", "weights", "recipe", "layout", "seed", "step", "changed", "found",
                "blamed", "blamed_right", "false_alarm"},
    .keys = 7,
    .run = run,
    .trained_states = trained_small_states,
    .rates = rates,
};

}  // namespace plumb::experiments
