// experiments/experiment.hpp: a question, its columns, and how rows are made. One question, one
// file in questions/, one line in experiments.inc; the driver adds provenance, resume and progress.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/sees.hpp"
#include "experiments/table.hpp"
#include "experiments/trial.hpp"

namespace plumb::experiments {

// The effort that is asked for, and the driver's services.
struct Effort {
  int scale = 1;  // multiplies seeds and runs
  // Returns the state of a trained model of the config's family (made once and cached).
  std::function<Start(const Recipe&, const Layout&, const Config& config)> trained;
  // Returns the state of that name in the folder of trained states, made and kept there if there is
  // none. Another process that makes the same is waited for. Absent: states are made anew.
  std::function<Trace(const std::string& name, const std::function<Trace()>& make)> kept = {};
  std::function<void(const std::string&)> progress;
  std::function<bool()> out_of_time;  // a question stops between rows when this says so
};

struct Experiment {
  std::string_view name;  // kebab-case, stable once results exist
  std::string_view question;
  std::vector<std::string> columns;
  std::size_t keys;  // the first so many columns name a row: rows that are there are not made again
  void (*run)(Table& rows, const Effort& effort);
  // For the provenance: the trained weights of its rows.
  std::string_view trained_states = "seed 7, 1500 steps of 16 sequences of 64 bytes, bf16";
  // Rates over rows, written beside them as <name>-rates.csv. Null: the rows say all.
  Table (*rates)(const Table& rows) = nullptr;
  // Keys of which this says the same share what is costly to make, so that one rank of a job makes
  // them all. Null: each key stands alone.
  std::string (*shares)(const Table::Row& key) = nullptr;
};

// Writes the rates of these rows, where the experiment has any, into `folder`.
void write_rates(const Experiment& experiment, const Table& rows,
                 const std::filesystem::path& folder);

std::span<const Experiment* const> all_experiments();
// Throws Failure on an unknown name, listing the known.
const Experiment& find_experiment(std::string_view name);

}  // namespace plumb::experiments
