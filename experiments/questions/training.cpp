// Does every recipe learn? The same 200 steps of the default text in each; the mean loss of every
// ten steps. fp32 is the yardstick; a recipe whose curve leaves it is wrong, or hurts. Where ranks
// draw their roundings there are two of them.
#include "model/run/training.hpp"
#include "experiments/experiment.hpp"
#include "model/data/text.hpp"
#include "model/plan/plan.hpp"
#include "trace/execute.hpp"
#include "trace/merge.hpp"

namespace plumb::experiments {
namespace {

constexpr int steps = 200, together = 10;

std::vector<std::string> key(const std::string& family, const Recipe& recipe, int seed, int step) {
  return {family, recipe.id, std::to_string(seed), std::to_string(step)};
}

// All that a step leaves, from ranks that each have a part of it.
Values step_over_ranks(const Start& start) {
  return merge(run_candidate(start, nullptr).trace).values;
}

Values step_of_one(const Start& start) {
  const Training& run = start.run;
  return reference(plan(run.config, run.recipe, run.layout, run.step), start.leaves);
}

void one_run(Table& rows, Family family, const Recipe& recipe, int seed) {
  Config config = config_of(name_of(family));
  config.seed = static_cast<std::uint64_t>(seed);
  double sum = 0;
  std::vector<Table::Row> group;
  const Layout two{.dp = 2};
  const bool draws = draws_results(recipe, two);
  // One step more, which is not run: the rate falls to the end of it.
  go_through(start_of(config, recipe, draws ? two : Layout{}, default_text()), default_text(),
             steps + 1, [&](const Start& now) {
               if (now.run.step > steps) return Values();
               Values step = draws ? step_over_ranks(now) : step_of_one(now);
               sum += static_cast<double>(step.at("loss/out")->values[0]);
               if (now.run.step % together != 0) return step;
               std::vector<std::string> row = key(name_of(family), recipe, seed, now.run.step);
               row.push_back(cell(sum / together));
               group.push_back(std::move(row));
               sum = 0;
               return step;
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
