#include "experiments/experiment.hpp"
#include "number/catalogue.hpp"

namespace plumb::experiments {

#define EXPERIMENT(name) extern const Experiment name;
#include "experiments/experiments.inc"
#undef EXPERIMENT

namespace {
const Catalogue<Experiment>& catalogue() {
  static constexpr const Experiment* cards[] = {
#define EXPERIMENT(name) &name,
#include "experiments/experiments.inc"
#undef EXPERIMENT
  };
  static constexpr Catalogue<Experiment> all("experiment", &Experiment::name, cards);
  return all;
}
}  // namespace

std::span<const Experiment* const> all_experiments() { return catalogue().cards(); }
const Experiment& find_experiment(std::string_view name) { return catalogue().at(name); }

void write_rates(const Experiment& experiment, const Table& rows,
                 const std::filesystem::path& folder) {
  if (experiment.rates == nullptr) return;
  experiment.rates(rows).write(folder / (std::string(experiment.name) + "-rates.csv"));
}

}  // namespace plumb::experiments
