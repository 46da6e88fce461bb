// What does stochastic rounding hide? The catalogue's bugs of BF16 runs, in recipe `trainium`, whose
// ranks round results by draws of their own, and beside it in `bf16-stochastic`, which is the same
// but for that. Detected is what structure or the rule itself finds.
#include "experiments/experiment.hpp"
#include "experiments/said.hpp"
#include "experiments/small.hpp"
#include "model/data/text.hpp"

namespace plumb::experiments {
namespace {

constexpr int seeds = 2;
const std::vector<std::string> rules{default_rules, "twins", "perturbation", "flat"};

// The layout that a bug needs, with sequence parallelism beside tensor parallelism: without it
// replicas would have to draw alike.
Layout with_sp(const Bug& bug) {
  Layout layout = parse_layout(std::string(bug.needs.layout));
  layout.sp = layout.tp > 1;
  return layout;
}

// The model that a bug needs, as small as those of small_start.
Config config_for(const Bug& bug, const std::string& family, int seed) {
  Config config = small_model(family);
  config.seed = static_cast<std::uint64_t>(seed);
  bug.needs.complete(config);
  return config;
}

// Empty, or why a bug has no rows.
std::string left_out(const Bug& bug, const Config& config) {
  if (bug.needs.recipe != "bf16") return "needs " + std::string(bug.needs.recipe);
  return wrong_draws(find_recipe("trainium"), with_sp(bug), config);
}

Table::Row row_of(const std::vector<std::string>& key, const std::string& rule, const Trial& t) {
  const Said said = said_by(rule, t);
  Table::Row row = key;
  for (const std::string& text :
       {rule, yes(t.reached && t.changed), yes(said.structure || !said.broken.empty()),
        yes(said.blamed == t.bites_at), yes(!said.healthy.empty()), cell(t.effect),
        cell(standing(t.broken, t.bites_at).largest), std::string("-")}) {
    row.push_back(text);
  }
  return row;
}

void judge(Table& rows, const std::vector<std::string>& key, const Start& start, const Bug& bug) {
  const std::vector<Trial> trials = trials_by(rules, start, bug);
  std::vector<Table::Row> group;
  for (std::size_t i = 0; i < trials.size(); ++i) group.push_back(row_of(key, rules[i], trials[i]));
  rows.add_group(group);
}

void one_bug(Table& rows, const Effort& effort, const Bug& bug, int seed) {
  const std::string family = bug.needs.family(bug.needs.families.front());
  const Config config = config_for(bug, family, seed);
  const std::string why = left_out(bug, config);
  // The trained model has no other settings and no other layers.
  const bool alike = bug.needs.settings.empty() && config.layers == small_model(family).layers;
  for (const std::string recipe : {"trainium", "bf16-stochastic"}) {
    for (const std::string weights : {"random", "trained"}) {
      if (weights == "trained" && !alike) continue;
      if (effort.out_of_time()) return;
      const std::vector<std::string> key{std::string(bug.id), family, weights, recipe,
                                         std::to_string(seed)};
      std::vector<std::string> last = key;
      last.push_back(why.empty() ? rules.back() : "-");
      if (rows.settled(last)) continue;
      if (!why.empty()) {
        last.insert(last.end(), {"0", "-", "-", "-", "-", "-", why});
        rows.add(last);
        continue;
      }
      judge(rows, key, small_start(config, find_recipe(recipe), with_sp(bug), weights, effort),
            bug);
      effort.progress(key[0] + " " + weights + " " + recipe + " seed " + key[4]);
    }
  }
}

void run(Table& rows, const Effort& effort) {
  for (int seed = 1; seed <= seeds * effort.scale; ++seed) {
    for (const Bug* bug : all_bugs()) one_bug(rows, effort, *bug, seed);
  }
}

}  // namespace

extern const Experiment stochastic_rounding{
    .name = "stochastic-rounding",
    .question = "Which planted bugs does stochastic rounding of results hide from each rule?",
    .columns = {"bug", "family", "weights", "recipe", "seed", "rule", "changed", "detected",
                "blamed_right", "accused", "effect", "largest_error_over_tolerance", "left_out"},
    .keys = 6,
    .run = run,
    .trained_states = trained_small_states,
};

}  // namespace plumb::experiments
