#include <fmt/format.h>

#include <chrono>
#include <fstream>

#include "cli/build.hpp"
#include "cli/values.hpp"
#include "cli/verbs.hpp"
#include "experiments/experiment.hpp"
#include "experiments/training.hpp"
#include "model/data/text.hpp"
#include "number/outcome.hpp"
#include "trace/selection.hpp"
#include "trace/store/store.hpp"

namespace plumb::cli {
namespace {

constexpr int training_steps = 1500;

std::string device() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

// Is it a size of the model, and 0 by default?
bool is_choice(const Size& size) { return size.of_model() && size.least == 0; }

// "llama+qk_norm=1": the family and its choices.
std::string model_of(const Config& config) {
  std::string name = family_of(config);
  for (const Size& size : sizes()) {
    if (is_choice(size) && config.*size.field != 0) {
      name += fmt::format("+{}={}", size.name, config.*size.field);
    }
  }
  return name;
}

// Returns the trained state of such a model: made once, kept in `cache`.
const Trace& trained_state(const Config& of, const std::string& cache) {
  static std::map<std::string, Trace> known;
  const std::string model = model_of(of);
  const auto found = known.find(model);
  if (found != known.end()) return found->second;
  const std::string folder = cache + "/trained-" + model;
  if (!std::filesystem::exists(folder)) {
    Config config = config_of(family_of(of));
    for (const Size& size : sizes()) {
      if (is_choice(size)) config.*size.field = of.*size.field;
    }
    config.sequences = 4;
    config.micro_batches = 4;
    config.seed = 7;
    Start start = start_of(config, find_recipe("bf16"), {}, default_text());
    start = trained(std::move(start), default_text(), training_steps, [&](int step, double loss) {
      talk(fmt::format("training {} once: step {} of {}, loss {:.3f}", model, step, training_steps,
                       loss));
    });
    std::filesystem::create_directories(cache);
    write_trace(run_reference(start), folder);
  }
  return known.emplace(model, load(folder).trace).first->second;
}

Start trained_start(const Recipe& recipe, const Layout& layout, const Config& config,
                    const std::string& cache) {
  return start_of(config, recipe, layout, default_text(), &trained_state(config, cache));
}

}  // namespace

void add_run(CLI::App& app, Verb& chosen) {
  auto* verb = app.add_subcommand("run", "answer a question with an experiment");
  static std::string name, out = "results", cache = "plumb-cache", only;
  static int effort = 1;
  static double minutes = 1e6;
  verb->add_option("EXPERIMENT", name, "a question; without one they are listed");
  verb->add_option("--effort", effort, "multiplies seeds and runs")
      ->capture_default_str()
      ->check(whole_numbers(1, 1000));
  verb->add_option("--minutes", minutes, "stop between rows after this long; run again to go on")
      ->check(numbers(1e-3, 1e6));
  verb->add_option("--only", only,
                   "make only rows whose key matches this regular expression; the key is the row's "
                   "first cells with blanks between, as in 'llama bf16' (of rows that are made "
                   "together the last one's)");
  verb->add_option("-o,--output", out, "folder of results")->capture_default_str();
  verb->add_option("--cache", cache, "folder of trained states")->capture_default_str();
  verb->callback([&chosen] {
    chosen = [] {
      if (name.empty()) {
        for (const Experiment* e : all_experiments())
          fmt::print("{:<16} {}\n", e->name, e->question);
        return 0;
      }
      const Experiment& experiment = find_experiment(name);
      Table rows(experiment.columns, experiment.keys);
      const std::string base = out + "/" + name;
      rows.keep_in(base + ".csv");
      const Pattern wanted(only, "--only");
      if (!wanted.empty()) rows.only([&](const std::string& key) { return wanted.matches(key); });
      const std::size_t before = rows.rows().size();
      using Clock = std::chrono::steady_clock;
      const auto end = Clock::now() + std::chrono::duration<double>(60 * minutes);
      Effort lent;
      lent.scale = effort;
      lent.trained = [](const Recipe& r, const Layout& l, const Config& c) {
        return trained_start(r, l, c, cache);
      };
      lent.progress = talk;
      lent.out_of_time = [&] { return Clock::now() > end; };
      // First: a run that is stopped leaves rows that are worth believing.
      write_provenance(
          base + ".json",
          {{"command", fmt::format("plumb run {} --effort {}{}", name, effort,
                                   only.empty() ? "" : " --only '" + only + "'")},
           {"commit", std::string(build_commit())},
           {"flags", PLUMB_FLAGS},
           {"compiler", __VERSION__},
           {"device", device()},
           {"seeds", fmt::format("in the rows; trained states: {}", experiment.trained_states)}});
      experiment.run(rows, lent);
      talk("");
      fmt::print("{}: {} rows ({} new) in {}.csv\n", name, rows.rows().size(),
                 rows.rows().size() - before, base);
      return 0;
    };
  });
}

}  // namespace plumb::cli
