// Does every recipe learn? The same 200 steps of the default text in each; the mean loss of every
// ten steps. fp32 is the yardstick; a recipe whose curve leaves it is wrong, or hurts.
#include "model/run/training.hpp"

#include "experiments/experiment.hpp"
#include "model/data/text.hpp"

namespace plumb::experiments {
namespace {

constexpr int steps = 200, together = 10;

std::vector<std::string> key(const std::string& family, const Recipe& recipe, int seed, int step) {
  return {family, recipe.id, std::to_string(seed), std::to_string(step)};
}

void one_run(Table& rows, Family family, const Recipe& recipe, int seed) {
  Config config = config_of(name_of(family));
  config.seed = static_cast<std::uint64_t>(seed);
  double sum = 0;
  std::vector<Table::Row> group;
  // The loss of the last step but one is the last that is told.
  trained(start_of(config, recipe, {}, default_text()), default_text(), steps + 1,
          [&](int step, double loss) {
            sum += loss;
            if (step % together != 0) return;
            std::vector<std::string> row = key(name_of(family), recipe, seed, step);
            row.push_back(cell(sum / together));
            group.push_back(std::move(row));
            sum = 0;
          });
  rows.add_group(group);
}

void run(Table& rows, const Effort& effort) {
  for (int seed = 1; seed <= effort.scale; ++seed) {
    for (const Family family : {Family::gpt, Family::llama}) {
      for (const Recipe& recipe : all_recipes()) {
        if (effort.out_of_time()) return;
        if (rows.settled(key(name_of(family), recipe, seed, steps))) continue;
        effort.progress(name_of(family) + " " + recipe.id + " seed " + std::to_string(seed));
        one_run(rows, family, recipe, seed);
      }
    }
  }
}

}  // namespace

extern const Experiment training{
    .name = "training",
    .question = "Does every recipe learn as fp32 does?",
    .columns = {"family", "recipe", "seed", "step", "mean_loss"},
    .keys = 4,
    .run = run,
};

}  // namespace plumb::experiments
