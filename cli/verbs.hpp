// cli/verbs.hpp: the verbs of the program. Each adds itself to the command line and, when chosen,
// returns its exit code. One file per verb; cli/README.md says which logic of a run is here, too.
//
// TESTED   tests/cli/verbs_test.cpp, tests/cli/options_test.cpp
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "cli/machine_options.hpp"
#include "cli/sees.hpp"
#include "model/run/start.hpp"
#include "trace/check.hpp"
#include "trace/report/report.hpp"

namespace plumb::cli {

using Verb = std::function<int()>;

// Registers a verb under `app`; `chosen` is set to it when the user asks for it.
void add_demo(CLI::App& app, Verb& chosen);
void add_bugs(CLI::App& app, Verb& chosen);
void add_catch(CLI::App& app, Verb& chosen);
void add_corpus(CLI::App& app, Verb& chosen);
void add_score(CLI::App& app, Verb& chosen);
void add_train(CLI::App& app, Verb& chosen);
void add_check(CLI::App& app, Verb& chosen);
void add_localize(CLI::App& app, Verb& chosen);
void add_replay(CLI::App& app, Verb& chosen);
void add_inspect(CLI::App& app, Verb& chosen);
void add_bound(CLI::App& app, Verb& chosen);
void add_judge(CLI::App& app, Verb& chosen);
void add_calibrate(CLI::App& app, Verb& chosen);
void add_machines(CLI::App& app, Verb& chosen);
void add_recipes(CLI::App& app, Verb& chosen);
void add_experiment(CLI::App& app, Verb& chosen);
void add_spreads(CLI::App& app, Verb& chosen);
void add_sketch(CLI::App& app, Verb& chosen);
void add_dry(CLI::App& app, Verb& chosen);
void add_paper(CLI::App& app, Verb& chosen);
void add_completion(CLI::App& app, Verb& chosen);
void add_manual(CLI::App& app, Verb& chosen);

// Options of a run that several verbs share.
struct ModelOptions {
  std::string family, recipe, layout, data, load;  // empty: not given
  std::map<std::string, int> sizes;                // -1: not given
  std::uint64_t seed = 1;

  void add_to(CLI::App& verb);
  // Reads --data and --load. The arguments replace options that were not given.
  Start start(const std::string& layout_if_none, const std::string& recipe_if_none = "bf16") const;
  // Returns the model alone, however large.
  Config planned() const;

 private:
  void add_size(CLI::App& verb, const Size& size);
  Config changed(Config config, bool to_run) const;
  void refuse_another_model(const Config& loaded) const;
};

// --dose of a planted bug; 0: not given.
CLI::Option* add_dose(CLI::App& verb, double& dose);

// --rewrite[=HOW]: what modules take in; empty: not given.
CLI::Option* add_rewrite(CLI::App& verb, std::string& how);
Rewriting rewriting_asked(const std::string& how);

// The files that options of a check name.
struct Beside {
  Trace perturbed, better;
  std::vector<Trace> twins;
  StoredSpreads spreads;
};

// A trace that was read, merged and verified.
struct Loaded {
  Trace trace;
  Merged merged;
};

struct CheckCommand {
  CheckOptions options;
  MachineOptions on;
  std::string rules, perturbed, better, spreads, placement;
  std::vector<std::string> twins;  // a number, or traces
  std::vector<std::string> reports;
  bool json = false, force = false;

  void add_to(CLI::App& verb);
  // Refuses options of rules that are not asked for. Splits --rule, loads --perturbed and
  // --spreads into `beside`, sets progress.
  CheckOptions ready(Beside& beside) const;
  // Returns the verdicts on two traces on disk, or on the traces of each step of two runs, which
  // share the false-alarm level.
  std::vector<StepVerdict> compare(const std::string& reference,
                                   const std::string& candidate) const;
  // The verdict on the same two runs, rewritten; `normal`: the candidate, to be that run otherwise.
  Verdict compare_rewritten(const std::string& reference, const std::string& candidate,
                            const std::string& normal) const;
  // Prints to stdout and writes --report files (of several verdicts the one to look at); returns
  // the exit code of all.
  int told(const std::vector<StepVerdict>& all) const;
  // Returns 1 if any has a finding, 3 if none could fail.
  static int exit_code(const std::vector<StepVerdict>& all);
  // Returns the first with a finding, or the last.
  static const StepVerdict& to_look_at(const std::vector<StepVerdict>& all);
  void write_reports(const std::vector<StepVerdict>& all) const;

 private:
  void refuse_odd_twins() const;
  CheckOptions for_runs(const Loaded& r, const Loaded& c, const CheckOptions& asked) const;
  Verdict judged(const Loaded& r, const Loaded& c, const CheckOptions& asked) const;

  CLI::App* verb_ = nullptr;
};

// The footer of check, localize, replay and judge.
inline constexpr const char* verdict_codes =
    "Exit codes: 0 all inside; 1 a finding; 2 trouble; 3 nothing that was judged could have "
    "failed, or a difference has no known reason.";

// Prints the questions that run knows.
void list_experiments(bool as_json);
// Returns the text of --data FILE, or the default one.
std::string text_from(const std::string& file);
// Prints progress on stderr: at once on a terminal, else every ten seconds.
void talk(const std::string& what);
// Says a sentence on stderr that is no trouble.
void note(const std::string& sentence);
Loaded load(const std::string& folder);
// The same to be checked: one that promises nothing is not merged, since check() reads it tensor by
// tensor. `placement`: a file of overrides; empty: none.
Loaded load_to_check(const std::string& folder, const std::string& placement = "");
// Prints under which placement the pieces of each tensor of a trace fit; with --json as a file for
// --placement.
struct SuggestFrom {
  std::string only, placement, reference;  // empty: all, as the trace says, none
};
int suggest_placements(const std::string& folder, const SuggestFrom& from, bool as_json);
// --placement of verbs that read a candidate.
void add_placement(CLI::App& verb, std::string& file);

}  // namespace plumb::cli
