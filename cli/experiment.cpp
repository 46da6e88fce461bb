#include <fmt/format.h>

#include <chrono>

#include "cli/build.hpp"
#include "cli/json.hpp"
#include "cli/stop.hpp"
#include "cli/values.hpp"
#include "cli/verbs.hpp"
#include "experiments/experiment.hpp"
#include "model/data/text.hpp"
#include "model/run/trained_states.hpp"
#include "model/run/training.hpp"
#include "number/outcome.hpp"
#include "number/words.hpp"
#include "trace/selection.hpp"

namespace plumb::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Thrown where a question cannot stop between rows: while it waits for trained weights.
struct TimeIsUp {};

class ExperimentCommand {
 public:
  void add_to(CLI::App& verb);
  int run();

 private:
  void tell(const Table& rows, std::size_t before, const std::string& csv) const;
  void count_work(const Experiment& experiment);
  Effort lent(const Table& rows);
  void say_provenance(const Experiment& experiment) const;
  std::size_t left(const Table& rows) const;
  std::string time_left(const Table& rows) const;

  std::string name_, out_ = "results", cache_ = "plumb-cache", only_;
  int effort_ = 1;
  bool json_ = false;
  double minutes_ = 1e6;
  Clock::time_point began_;
  std::set<Table::Row> work_;  // keys that are looked up and wanted
  std::size_t at_first_ = 0;   // so many of them were left
};

void ExperimentCommand::add_to(CLI::App& verb) {
  verb.add_option("EXPERIMENT", name_, "a question; without one they are listed");
  verb.add_option("--effort", effort_, "multiplies seeds and runs")
      ->capture_default_str()
      ->check(whole_numbers(1, 1000));
  verb.add_option("--minutes", minutes_, "stop after this long; run again to go on")
      ->check(numbers(1e-3, 1e6));
  verb.add_option("--only", only_,
                  "make only rows whose key matches this regular expression; the key is the row's "
                  "first cells with blanks between, as in 'llama bf16' (of rows that are made "
                  "together the last one's)");
  verb.add_option("-o,--output", out_, "folder of results")->capture_default_str();
  verb.add_option("--cache", cache_, "folder of trained states")->capture_default_str();
  add_json(verb, json_);
}

std::size_t ExperimentCommand::left(const Table& rows) const {
  std::size_t n = 0;
  for (const Table::Row& key : work_) n += rows.settled(key) ? 0 : 1;
  return n;
}

std::string ExperimentCommand::time_left(const Table& rows) const {
  const std::size_t now = left(rows), done = at_first_ - now;
  const std::chrono::duration<double, std::ratio<60>> spent = Clock::now() - began_;
  if (done == 0) return fmt::format("{} of {} left", now, work_.size());
  const double minutes = spent.count() / static_cast<double>(done) * static_cast<double>(now);
  return fmt::format("{} of {} left, about {:.0f} min", now, work_.size(), minutes);
}

// What is looked up by the question, asked without making any of it.
void ExperimentCommand::count_work(const Experiment& experiment) {
  Table asks(experiment.columns, experiment.keys);
  asks.only_ask();
  const Pattern wanted(only_, "--only");
  if (!wanted.empty()) asks.only([&](const std::string& key) { return wanted.matches(key); });
  Effort none;
  none.scale = effort_;
  none.progress = [](const std::string&) {};
  none.out_of_time = [] { return false; };
  experiment.run(asks, none);
  for (const Table::Row& key : asks.asked()) {
    if (asks.wanted(key)) work_.insert(key);
  }
  if (work_.empty()) {
    throw Failure(fmt::format("--only '{}' matches none of the {}, as '{}'", only_,
                              how_many(asks.asked().size(), "key"),
                              fmt::join(*asks.asked().begin(), " ")));
  }
}

Effort ExperimentCommand::lent(const Table& rows) {
  Effort lent;
  lent.scale = effort_;
  lent.out_of_time = [this] {
    return Clock::now() > began_ + std::chrono::duration<double>(60 * minutes_);
  };
  lent.trained = [this, late = lent.out_of_time](const Recipe& r, const Layout& l,
                                                 const Config& c) {
    return trained_start(r, l, c, cache_, [&](const std::string& what) {
      if (late()) throw TimeIsUp();
      talk(what);
    });
  };
  lent.progress = [this, &rows](const std::string& what) {
    talk(fmt::format("{} ({})", what, time_left(rows)));
  };
  return lent;
}

void ExperimentCommand::say_provenance(const Experiment& experiment) const {
  write_provenance(
      out_ + "/" + name_ + ".json",
      {{"command", fmt::format("plumb experiment {} --effort {}{}", name_, effort_,
                               only_.empty() ? "" : " --only '" + only_ + "'")},
       {"commit", std::string(build_commit())},
       {"flags", PLUMB_FLAGS},
       {"compiler", __VERSION__},
       {"device", device_name()},
       {"seeds", fmt::format("in the rows; trained states: {}", experiment.trained_states)}});
}

int ExperimentCommand::run() {
  if (name_.empty()) {
    list_experiments(json_);
    return 0;
  }
  const Experiment& experiment = find_experiment(name_);
  count_work(experiment);
  Table rows(experiment.columns, experiment.keys);
  const std::string csv = out_ + "/" + name_ + ".csv";
  rows.keep_in(csv);
  name_what_was_left(csv);
  const Pattern wanted(only_, "--only");
  if (!wanted.empty()) rows.only([&](const std::string& key) { return wanted.matches(key); });
  const std::size_t before = rows.rows().size();
  at_first_ = left(rows);
  began_ = Clock::now();
  say_provenance(experiment);  // first: a run that is stopped leaves rows that are worth believing
  try {
    experiment.run(rows, lent(rows));
  } catch (const TimeIsUp&) {
  }
  write_rates(experiment, rows, out_);
  talk("");
  tell(rows, before, csv);
  return 0;
}

void ExperimentCommand::tell(const Table& rows, std::size_t before, const std::string& csv) const {
  const std::size_t still = left(rows), all = rows.rows().size();
  if (json_) {
    return print_document("plumb-experiment/1", {{"experiment", name_},
                                                 {"file", csv},
                                                 {"rows", all},
                                                 {"new", all - before},
                                                 {"keys", work_.size()},
                                                 {"keys_left", still},
                                                 {"only", only_}});
  }
  fmt::print("{}: {} ({} new) in {}; {}\n", name_, how_many(all, "row"), all - before, csv,
             still > 0       ? fmt::format("time is up, {} of {} keys are left: run again to go on",
                                           still, work_.size())
             : only_.empty() ? "complete"
                             : "complete for --only");
}

}  // namespace

void add_experiment(CLI::App& app, Verb& chosen) {
  auto* verb = app.add_subcommand("experiment", "answer a question with an experiment");
  static ExperimentCommand command;
  command.add_to(*verb);
  verb->callback([&chosen] { chosen = [] { return command.run(); }; });
}

}  // namespace plumb::cli
