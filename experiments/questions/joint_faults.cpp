// Faults that nobody reported, at every joint of the model: who notices them?
#include "experiments/joint_faults.hpp"
#include "experiments/experiment.hpp"
#include "experiments/small.hpp"
#include "model/plan/verify.hpp"

namespace plumb::experiments {
namespace {

constexpr const char* rules[] = {"twins,replay", "perturbation", "flat", "assert-close"};

std::string yes(bool x) { return x ? "1" : "0"; }

Table::Row row_of(const Table::Row& key, const std::optional<Shown>& shown) {
  Table::Row row = key;
  if (!shown) {
    row.insert(row.end(), {"-", "-", "-", "0", "0", "0", "-", "0", "0", "0", "0"});
    return row;
  }
  const Needs& needs = shown->place->needs;
  const Runs& runs = shown->runs;
  const Merged whole = merge_verified(runs.reference);
  const Reference reference(runs.reference, whole);
  const Trace perturbed = run_perturbed(runs.start, 1);
  row.insert(row.end(),
             {needs.family(needs.families.front()), std::string(needs.recipe),
              std::string(needs.layout), yes(shown->trial.changed), cell(shown->trial.effect)});
  std::string blamed = "-";
  Table::Row seen;
  bool accused = false;
  for (const char* rule : rules) {
    CheckOptions options;
    options.perturbed = &perturbed;
    const bool is_default = rule == rules[0];
    if (!is_default) options.rules = {rule};
    const Verdict broken = check(reference, runs.broken.trace, shown->broken, options);
    seen.push_back(yes(broken.exit_code() == 1));
    if (!is_default) continue;
    blamed = broken.blamed.empty() ? "-" : broken.blamed;
    accused = check(reference, runs.healthy.trace, shown->healthy, options).exit_code() == 1;
  }
  row.insert(row.end(), {yes(accused), blamed});
  row.insert(row.end(), seen.begin(), seen.end());
  return row;
}

void run(Table& rows, const Effort& effort) {
  Search search;
  for (int seed = 1; seed <= effort.scale; ++seed) {
    for (const std::string weights : {"random", "trained"}) {
      const auto start = [&](const Needs& needs) {
        Config config = small_model(needs.family(needs.families.front()));
        config.seed = static_cast<std::uint64_t>(seed);
        needs.complete(config);
        return small_start(config, find_recipe(std::string(needs.recipe)),
                           parse_layout(std::string(needs.layout)), weights, effort);
      };
      for (const GenericFault& fault : generic_faults()) {
        if (effort.out_of_time()) return;
        const Table::Row key{fault.joint, fault.kind, weights, std::to_string(seed)};
        if (rows.settled(key)) continue;
        rows.add(row_of(key, search.first_change(fault, start)));
        effort.progress(fault.id() + " " + weights + " seed " + key[3]);
      }
    }
  }
}

}  // namespace

extern const Experiment joint_faults{
    .name = "joint-faults",
    .question = "Which rule notices a fault of each kind at every joint of the model?",
    .columns = {"joint", "kind", "weights", "seed", "family", "recipe", "layout", "changed",
                "effect", "accused", "blamed", "twins_replay", "perturbation", "flat",
                "assert_close"},
    .keys = 4,
    .run = run,
    .trained_states = trained_small_states,
};

}  // namespace plumb::experiments
