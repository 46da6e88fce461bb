// Faults that nobody reported, at every joint of the model: who notices them?
#include "experiments/joint_faults.hpp"

#include <map>
#include <memory>

#include "experiments/experiment.hpp"
#include "experiments/said.hpp"
#include "experiments/small.hpp"

namespace plumb::experiments {
namespace {

const std::vector<std::string> rules{default_rules, "perturbation", "flat", "assert-close"};

Table::Row row_of(const Table::Row& key, const std::optional<Shown>& shown) {
  Table::Row row = key;
  if (!shown) {
    row.insert(row.end(), {"-", "-", "-", "0", "0", "0", "-", "0", "0", "0", "0"});
    return row;
  }
  const Needs& needs = shown->place->needs;
  const Trial& changes = shown->broken.changes;
  row.insert(row.end(), {needs.family(needs.families.front()), std::string(needs.recipe),
                         std::string(needs.layout), yes(changes.changed), cell(changes.effect)});
  const std::vector<Trial> trials = shown->scene->judged(shown->broken);
  const Trial& ours = trials.front();
  row.insert(row.end(), {yes(ours.healthy.exit_code() == 1),
                         ours.broken.blamed.empty() ? "-" : ours.broken.blamed});
  for (const Trial& trial : trials) row.push_back(yes(trial.broken.exit_code() == 1));
  return row;
}

std::unique_ptr<Scene> made(const Place& place, int seed, const std::string& weights,
                            const Effort& effort) {
  const Needs& needs = place.needs;
  Config config = small_model(needs.family(needs.families.front()));
  config.seed = static_cast<std::uint64_t>(seed);
  needs.complete(config);
  const Start start = small_start(config, find_recipe(std::string(needs.recipe)),
                                  parse_layout(std::string(needs.layout)), weights, effort);
  return std::make_unique<Scene>(start, place.in_the_next_step, ways_of(rules));
}

void run(Table& rows, const Effort& effort) {
  Search search;
  for (int seed = 1; seed <= effort.scale; ++seed) {
    for (const std::string weights : {"random", "trained"}) {
      std::map<const Place*, std::unique_ptr<Scene>> scenes;
      const auto scene = [&](const Place& place) -> Scene& {
        auto& here = scenes[&place];
        if (!here) here = made(place, seed, weights, effort);
        return *here;
      };
      for (const GenericFault& fault : generic_faults()) {
        if (effort.out_of_time()) return;
        const Table::Row key{fault.joint, fault.kind, weights, std::to_string(seed)};
        if (rows.settled(key)) continue;
        rows.add(row_of(key, search.first_change(fault, scene)));
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
