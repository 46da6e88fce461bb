#include <array>

#include "experiments/experiment.hpp"
#include "number/outcome.hpp"
#include "number/words.hpp"

namespace plumb::experiments {

#define EXPERIMENT(name) extern const Experiment name;
#include "experiments/experiments.inc"
#undef EXPERIMENT

std::span<const Experiment* const> all_experiments() {
  static constexpr std::array experiments{
#define EXPERIMENT(name) &name,
#include "experiments/experiments.inc"
#undef EXPERIMENT
  };
  return experiments;
}

const Experiment& find_experiment(std::string_view name) {
  std::vector<std::string> known;
  for (const Experiment* experiment : all_experiments()) {
    if (experiment->name == name) return *experiment;
    known.emplace_back(experiment->name);
  }
  throw Failure(unknown("experiment", name, known));
}

void write_rates(const Experiment& experiment, const Table& rows,
                 const std::filesystem::path& folder) {
  if (experiment.rates == nullptr) return;
  experiment.rates(rows).write(folder / (std::string(experiment.name) + "-rates.csv"));
}

}  // namespace plumb::experiments
