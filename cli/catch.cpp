#include <fmt/format.h>

#include <algorithm>

#include "cli/verbs.hpp"

namespace plumb {
namespace {

// Throws Failure if the bug cannot bite in this run.
void meets_needs(const Bug& bug, const Start& start) {
  const auto no = [&](const std::string& what) {
    throw Failure(std::string(bug.id) + " needs " + what);
  };
  const auto& families = bug.needs.families;
  if (std::ranges::find(families, start.run.config.family) == families.end()) {
    no("the family " + name_of(families.front()) + "; say --family " + name_of(families.front()));
  }
  const Layout needed = parse_layout(std::string(bug.needs.layout));
  const Layout& l = start.run.layout;
  if ((needed.tp > 1 && l.tp == 1) || (needed.dp > 1 && l.dp == 1) || (needed.sp && !l.sp)) {
    no("at least the layout " + std::string(bug.needs.layout) + "; this one is " + name_of(l));
  }
  const Recipe recipe = find_recipe(std::string(bug.needs.recipe));
  if (recipe.wire == fp32 && recipe.compute == bf16 && !(start.run.recipe.wire == fp32)) {
    no("a recipe that promises an FP32 wire, such as " + recipe.id);
  }
}

int told(const Bug& bug, const Start& start, const Trial& t) {
  const Verdict& v = t.broken;
  fmt::print("planted: {} ({})\n", bug.id, bug.title);
  fmt::print("run: {} {} {}, step {}\n", name_of(start.run.config.family), start.run.recipe.id,
             name_of(start.run.layout), start.run.step);
  fmt::print("healthy run: {} findings\n", t.healthy.findings.size());
  fmt::print("reached: {}   changed: {}   largest change: {:.3g} at {}\n", t.reached ? "yes" : "no",
             t.changed ? "yes" : "no", t.effect, t.effect_at.empty() ? "-" : t.effect_at);
  if (v.findings.empty()) {
    fmt::print("caught: no\n");
  } else {
    fmt::print("caught: yes, {} findings in {} tensors\n", v.findings.size(), v.lines.size());
    fmt::print("blamed: {}\n", v.blamed);
    const auto first = std::ranges::find(v.findings, v.blamed, &Finding::id);
    fmt::print("by: {}: {}\n", first->statistic, first->detail);
    fmt::print("bites at: {} ({})\n", t.bites_at, t.blamed_right ? "right" : "blamed another");
  }
  if (!t.reached || !t.changed) return 3;
  return v.exit_code() == 3 ? 3 : v.exit_code();
}

}  // namespace

void add_catch(CLI::App& app, Verb& chosen) {
  auto* verb = app.add_subcommand("catch", "plant one bug, check, say who is to blame");
  static ModelOptions model;
  static CheckCommand command;
  static std::string id;
  static double dose = 0;
  static bool healthy = false;
  verb->add_option("BUG", id, "a bug (list: plumb bugs)")->required();
  model.add_to(*verb);
  command.add_to(*verb);
  verb->add_option("--dose", dose, "of the bug, where it has one");
  verb->add_flag("--healthy", healthy, "leave the joint healthy: nothing should be found");
  verb->footer("Exit codes: 1 caught; 0 silent; 3 not reached or no bit changed; 2 needs not met.");
  verb->callback([&chosen, verb] {
    model.recipe_given = verb->count("--recipe") > 0;
    const bool family_given = verb->count("--family") > 0;
    chosen = [family_given] {
      const Bug& bug = find_bug(id);
      if (!family_given) model.family = name_of(bug.needs.families.front());
      const Start start = model.start(std::string(bug.needs.layout), std::string(bug.needs.recipe));
      meets_needs(bug, start);
      Trace second;
      CheckOptions options = command.ready(second);
      const bool perturb = std::ranges::find(options.rules, "perturbation") != options.rules.end();
      if (perturb && options.perturbed == nullptr) {
        second = run_perturbed(start, 1);
        options.perturbed = &second;
      }
      if (healthy) {
        const Verdict v = check(run_reference(start), run_candidate(start).trace, options);
        talk("");
        return command.told(v);
      }
      const Trial trial = run_trial(start, bug, {dose, model.seed}, options);
      talk("");
      return told(bug, start, trial);
    };
  });
}

}  // namespace plumb
