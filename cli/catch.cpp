#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/colour.hpp"
#include "cli/verbs.hpp"
#include "experiments/trial.hpp"
#include "model/plan/rewriting.hpp"
#include "model/plan/verify.hpp"
#include "model/run/rewriting.hpp"
#include "model/spec/manifest.hpp"
#include "number/words.hpp"
#include "trace/report/report.hpp"

namespace plumb::cli {
namespace {

int code_of(const Trial& t) { return t.reached && t.changed ? t.broken.exit_code() : 3; }

// The step that is judged: late bugs have a step before.
int step_of(const Bug& bug, const Start& start) {
  return start.run.step + (bug.in_the_next_step ? 1 : 0);
}

// What the same bug does in a rewritten run.
struct Rewritten {
  Rewriting how;
  Trial trial;

  std::vector<std::string> modules() const { return modules_of(trial.broken.findings); }
  std::string first() const {
    return trial.broken.findings.empty() ? "" : trial.broken.findings.front().id;
  }
  bool right() const { return module_of(first()) == module_of(trial.bites_at); }
};

nlohmann::json json_of(const Rewritten& r) {
  return {{"by", name_of(r.how)},
          {"healthy_findings", r.trial.healthy.findings.size()},
          {"modules", r.modules()},
          {"first", r.first()},
          {"module_right", r.right()}};
}

void tell(const Rewritten& r) {
  const std::string by = std::string(name_of(r.how));
  const std::string healthy = how_many(r.trial.healthy.findings.size(), "finding");
  if (r.first().empty()) {
    return say("by rewriting ({}): no module is wrong by itself; healthy run: {}\n", by, healthy);
  }
  say("by rewriting ({}): {}\n", by, fmt::join(r.modules(), ", "));
  fmt::print("first there: {} ({}); healthy run: {}\n", r.first(),
             r.right() ? "the right module" : "another module", healthy);
}

std::string trial_line(const Bug& bug, const Start& start, const Trial& t,
                       const std::optional<Rewritten>& rewritten) {
  nlohmann::json line{{"type", "trial"},
                      {"schema", "plumb-trial/1"},
                      {"planted", bug.id},
                      {"family", family_of(start.run.config)},
                      {"recipe", start.run.recipe.id},
                      {"layout", name_of(start.run.layout)},
                      {"step", step_of(bug, start)},
                      {"healthy_findings", t.healthy.findings.size()},
                      {"reached", t.reached},
                      {"changed", t.changed},
                      {"effect", t.effect},
                      {"effect_at", t.effect_at},
                      {"bites_at", t.bites_at},
                      {"blamed_right", t.blamed_right}};
  if (rewritten) line["rewritten"] = json_of(*rewritten);
  return line.dump() + "\n";
}

void tell(const Bug& bug, const Start& start, const Trial& t) {
  const Verdict& v = t.broken;
  fmt::print("planted: {} ({})\n", bug.id, bug.title);
  fmt::print("run: {} {} {}, step {}\n", family_of(start.run.config), start.run.recipe.id,
             name_of(start.run.layout), step_of(bug, start));
  fmt::print("healthy run: {}\n", how_many(t.healthy.findings.size(), "finding"));
  fmt::print("reached: {}   changed: {}   largest change: {:.3g} at {}\n", t.reached ? "yes" : "no",
             t.changed ? "yes" : "no", t.effect, t.effect_at.empty() ? "-" : t.effect_at);
  if (v.findings.empty()) {
    fmt::print("caught: no\n");
  } else {
    fmt::print("caught: yes, {} in {}\n", how_many(v.findings.size(), "finding"),
               how_many(v.lines.size(), "tensor"));
    say("blamed: {}\n", v.blamed);
    const auto first = std::ranges::find(v.findings, v.blamed, &Finding::id);
    fmt::print("by: {}: {}\n", first->statistic, first->detail);
    fmt::print("bites at: {} ({})\n", t.bites_at, t.blamed_right ? "right" : "blamed another");
  }
}

}  // namespace

void add_catch(CLI::App& app, Verb& chosen) {
  auto* verb = app.add_subcommand("catch", "plant one bug, check, say who is to blame");
  static ModelOptions model;
  static CheckCommand command;
  static std::string id, rewrite;
  static double dose = 0;
  static bool healthy = false;
  verb->add_option("BUG", id, "a bug (list: plumb bugs)")->required();
  model.add_to(*verb);
  command.add_to(*verb);
  verb->add_flag("--healthy", healthy, "leave the joint healthy: nothing should be found")
      ->excludes(add_dose(*verb, dose));
  add_rewrite(*verb, rewrite);
  verb->footer(
      "Exit codes: 1 caught; 0 not noticed; 3 not reached or no bit changed; 2 needs not met.");
  verb->callback([&chosen] {
    chosen = [] {
      const Bug& bug = find_bug(id);
      Beside beside;
      CheckOptions options = command.ready(beside);
      if (model.family.empty() && model.load.empty()) {
        model.family = bug.needs.family(bug.needs.families.front());
      }
      for (const Setting& needed : bug.needs.settings) {
        int& given = model.sizes.at(std::string(needed.name));
        if (given < 0) given = needed.number();
      }
      Start start = model.start(std::string(bug.needs.layout), std::string(bug.needs.recipe));
      refuse_unmet(bug, start.run, dose);
      const Rewriting how = rewriting_asked(rewrite);
      if (healthy) start = rewritten(std::move(start), how);
      const bool perturb = std::ranges::find(options.rules, "perturbation") != options.rules.end();
      if (perturb && options.perturbed == nullptr) {
        beside.perturbed = run_perturbed(start, 1);
        options.perturbed = &beside.perturbed;
      }
      if (healthy) {
        const ExecutedReference reference(start);
        const Trace candidate = run_candidate(start).trace;
        const Verdict v =
            check(reference.to_judge(), candidate, merge_verified(candidate), options);
        talk("");
        return command.told({{0, v}});
      }
      const Trial trial = run_trial(start, bug, {dose, model.seed}, options);
      std::optional<Rewritten> by_rewriting;
      if (how != Rewriting::none) {
        by_rewriting = {how, run_trial(start, bug, {dose, model.seed}, options, how)};
      }
      talk("");
      if (command.json) {
        fmt::print("{}{}", trial_line(bug, start, trial, by_rewriting), json_lines(trial.broken));
      } else {
        tell(bug, start, trial);
        if (by_rewriting) tell(*by_rewriting);
      }
      command.write_reports({{0, trial.broken}});
      return code_of(trial);
    };
  });
}

}  // namespace plumb::cli
