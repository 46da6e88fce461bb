#include <fmt/format.h>

#include <chrono>
#include <optional>

#include "cli/build.hpp"
#include "cli/dealt.hpp"
#include "cli/experiment.hpp"
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
#include "world/world.hpp"

namespace plumb::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Thrown where a question cannot stop between rows: while it waits for trained weights.
struct TimeIsUp {};

class Making {
 public:
  // `ranks`: those of an MPI job, of which this is one; null: there is no job.
  Making(const ExperimentAsked& asked, Communicator* ranks) : asked_(asked), ranks_(ranks) {}
  int run();

 private:
  void tell(const Table& rows, std::size_t before, const std::string& csv) const;
  void count_work(const Experiment& experiment);
  Effort lent(const Table& rows);
  void say_provenance(const Experiment& experiment) const;
  bool writes() const { return ranks_ == nullptr || ranks_->rank() == 0; }
  void make(const Experiment& experiment, Table& rows);
  std::size_t left(const Table& rows) const;
  std::string time_left(const Table& rows) const;

  const ExperimentAsked& asked_;
  Communicator* ranks_;
  std::optional<Dealt> dealt_;  // where there are ranks
  Clock::time_point began_;
  std::vector<Table::Row> order_;  // of all keys that are looked up
  std::set<Table::Row> work_;      // those of them that are wanted
  std::size_t at_first_ = 0;       // so many of them were left
};

std::size_t Making::left(const Table& rows) const {
  std::size_t n = 0;
  for (const Table::Row& key : work_) n += rows.settled(key) ? 0 : 1;
  return n;
}

std::string Making::time_left(const Table& rows) const {
  const std::size_t now = left(rows), done = at_first_ - now;
  const std::string of = fmt::format("{} of {} left{}", now, dealt_ ? at_first_ : work_.size(),
                                     dealt_ ? " of this rank's" : "");
  const std::chrono::duration<double, std::ratio<60>> spent = Clock::now() - began_;
  if (done == 0) return of;
  const double minutes = spent.count() / static_cast<double>(done) * static_cast<double>(now);
  return fmt::format("{}, about {:.0f} min", of, minutes);
}

// What is looked up by the question, asked without making any of it.
void Making::count_work(const Experiment& experiment) {
  Table asks(experiment.columns, experiment.keys);
  asks.only_ask();
  const Pattern wanted(asked_.only, "--only");
  if (!wanted.empty()) asks.only([&](const std::string& key) { return wanted.matches(key); });
  Effort none;
  none.scale = asked_.effort;
  none.progress = [](const std::string&) {};
  none.out_of_time = [] { return false; };
  experiment.run(asks, none);
  order_ = asks.asked();
  for (const Table::Row& key : asks.asked()) {
    if (asks.wanted(key)) work_.insert(key);
  }
  if (work_.empty()) {
    throw Failure(fmt::format("--only '{}' matches none of the {}, as '{}'", asked_.only,
                              how_many(asks.asked().size(), "key"),
                              fmt::join(*asks.asked().begin(), " ")));
  }
}

Effort Making::lent(const Table& rows) {
  Effort lent;
  lent.scale = asked_.effort;
  lent.out_of_time = [this] {
    return Clock::now() > began_ + std::chrono::duration<double>(60 * asked_.minutes);
  };
  lent.trained = [this, late = lent.out_of_time](const Recipe& r, const Layout& l,
                                                 const Config& c) {
    return trained_start(r, l, c, asked_.cache, [&](const std::string& what) {
      if (late()) throw TimeIsUp();
      if (writes()) talk(what);
    });
  };
  lent.kept = [this](const std::string& name, const std::function<Trace()>& make) {
    return kept_state(asked_.cache + "/" + name, make);
  };
  lent.progress = [this, &rows](const std::string& what) {
    if (!writes()) return;
    if (dealt_) dealt_->collect();
    talk(fmt::format("{} ({})", what, time_left(rows)));
  };
  return lent;
}

void Making::say_provenance(const Experiment& experiment) const {
  write_provenance(
      asked_.out + "/" + asked_.name + ".json",
      {{"command",
        fmt::format("{}plumb experiment {} --effort {}{}{}",
                    ranks_ == nullptr ? "" : fmt::format("mpirun -n {} ", ranks_->size()),
                    asked_.name, asked_.effort,
                    asked_.only.empty() ? "" : " --only '" + asked_.only + "'",
                    ranks_ == nullptr ? "" : " --world mpi")},
       {"commit", std::string(build_commit())},
       {"flags", PLUMB_FLAGS},
       {"compiler", __VERSION__},
       {"device", device_name()},
       {"seeds", fmt::format("in the rows; trained states: {}", experiment.trained_states)}});
}

void Making::make(const Experiment& experiment, Table& rows) {
  at_first_ = left(rows);
  began_ = Clock::now();
  // First: a run that is stopped leaves rows that are worth believing.
  if (writes()) say_provenance(experiment);
  try {
    experiment.run(rows, lent(rows));
  } catch (const TimeIsUp&) {
  } catch (...) {
    rows.save();
    throw;
  }
}

int Making::run() {
  const Experiment& experiment = find_experiment(asked_.name);
  count_work(experiment);
  Table rows(experiment.columns, experiment.keys);
  const std::string csv = asked_.out + "/" + asked_.name + ".csv";
  if (writes()) {
    rows.keep_in(csv);
    name_what_was_left(csv);
  }
  const Pattern pattern(asked_.only, "--only");
  const auto wanted = [&](const std::string& key) {
    return pattern.empty() || pattern.matches(key);
  };
  rows.only(wanted);
  const std::size_t before = rows.rows().size();
  if (ranks_ != nullptr) {
    dealt_.emplace(*ranks_, rows, order_, experiment.shares);
    rows.only([&](const std::string& key) { return wanted(key) && dealt_->mine(key); });
  }
  make(experiment, rows);
  if (dealt_) dealt_->finish();
  if (!writes()) return 0;
  rows.only(wanted);
  if (dealt_) rows.sort_like(order_);
  rows.save();
  write_rates(experiment, rows, asked_.out);
  talk("");
  tell(rows, before, csv);
  return 0;
}

void Making::tell(const Table& rows, std::size_t before, const std::string& csv) const {
  const std::size_t still = left(rows), all = rows.rows().size();
  if (asked_.json) {
    return print_document("plumb-experiment/1", {{"experiment", asked_.name},
                                                 {"file", csv},
                                                 {"rows", all},
                                                 {"new", all - before},
                                                 {"keys", work_.size()},
                                                 {"keys_left", still},
                                                 {"only", asked_.only}});
  }
  fmt::print("{}: {} ({} new) in {}; {}\n", asked_.name, how_many(all, "row"), all - before, csv,
             still > 0 ? fmt::format("time is up, {} of {} keys are left: run again to go on",
                                     still, work_.size())
             : asked_.only.empty() ? "complete"
                                   : "complete for --only");
}

}  // namespace

int make_rows(const ExperimentAsked& asked) {
  if (!asked.over_mpi) return Making(asked, nullptr).run();
  find_experiment(asked.name);
  int code = 0;
  const Division together = [](int) { return 0; };
  mpi().run(ranks_of_mpi(), std::span(&together, 1),
            [&](int, Groups& groups) { code = Making(asked, groups.front().get()).run(); });
  return code;
}

void add_experiment(CLI::App& app, Verb& chosen) {
  auto* verb = app.add_subcommand("experiment", "answer a question with an experiment");
  static ExperimentAsked asked;
  verb->add_option("EXPERIMENT", asked.name, "a question; without one they are listed");
  verb->add_option("--effort", asked.effort, "multiplies seeds and runs")
      ->capture_default_str()
      ->check(whole_numbers(1, 1000));
  verb->add_option("--minutes", asked.minutes, "stop after this long; run again to go on")
      ->check(numbers(1e-3, 1e6));
  verb->add_option("--only", asked.only,
                   "make only rows whose key matches this regular expression; the key is the row's "
                   "first cells with blanks between, as in 'llama bf16' (of rows that are made "
                   "together the last one's)");
  verb->add_option("-o,--output", asked.out, "folder of results")->capture_default_str();
  verb->add_option("--cache", asked.cache, "folder of trained states")->capture_default_str();
  static std::string world = "threads";
  verb->add_option(
          "--world", world,
          "mpi: the ranks of a job share the work, as in mpirun -n 8 plumb experiment ...; "
          "rank 0 writes the same file")
      ->capture_default_str()
      ->check(CLI::IsMember({"threads", "mpi"}));
  add_json(*verb, asked.json);
  verb->callback([&chosen] {
    chosen = [] {
      asked.over_mpi = world == "mpi";
      if (!asked.name.empty()) return make_rows(asked);
      list_experiments(asked.json);
      return 0;
    };
  });
}

}  // namespace plumb::cli
