// cli/verbs.hpp: the verbs of the program. Each adds itself to the command line and, when chosen,
// leaves its exit code. One file per verb; no logic lives here.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "experiments/trial.hpp"

namespace plumb {

using Verb = std::function<int()>;

// Registers a verb under `app`; `chosen` is set to it when the user asks for it.
void add_demo(CLI::App& app, Verb& chosen);
void add_bugs(CLI::App& app, Verb& chosen);
void add_catch(CLI::App& app, Verb& chosen);
void add_train(CLI::App& app, Verb& chosen);
void add_check(CLI::App& app, Verb& chosen);
void add_localize(CLI::App& app, Verb& chosen);
void add_replay(CLI::App& app, Verb& chosen);
void add_inspect(CLI::App& app, Verb& chosen);
void add_bound(CLI::App& app, Verb& chosen);
void add_run(CLI::App& app, Verb& chosen);
void add_paper(CLI::App& app, Verb& chosen);

// Options of a run that several verbs share.
struct ModelOptions {
  std::string family = "gpt", recipe = "bf16", layout, data, load;
  Config sizes;  // what the user changed, where `changed` says so
  int layers = 0, width = 0, heads = 0, kv_heads = 0, hidden = 0, sequence = 0, sequences = 0,
      micro_batches = 0;
  std::uint64_t seed = 1;

  void add_to(CLI::App& verb);
  Config config() const;
  // Reads --data and --load. `layout` overrides the option where it is not empty.
  Start start(const std::string& layout_if_none, const std::string& recipe_if_none = "") const;
  bool recipe_given = false;
};

struct CheckCommand {
  CheckOptions options;
  std::string rules, perturbed;
  std::vector<std::string> reports;
  bool json = false;

  void add_to(CLI::App& verb);
  // Splits --rule, loads --perturbed (kept in `second`), sets progress.
  CheckOptions ready(Trace& second) const;
  // The verdict on two traces on disk.
  Verdict compare(const std::string& reference, const std::string& candidate) const;
  // Prints to stdout and writes --report files; returns the exit code.
  int told(const Verdict& verdict) const;
};

// The text of --data FILE, or the default one.
std::string text_from(const std::string& file);
// Says on stderr what goes on: at once on a terminal, else every ten seconds.
void talk(const std::string& what);
// A trace that was read, merged and verified.
struct Loaded {
  Trace trace;
  Merged merged;
};
Loaded load(const std::string& folder);

}  // namespace plumb
