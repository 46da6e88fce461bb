// Which planted bugs does each rule notice, whom does it blame, and when does it cry wolf?
#include "experiments/experiment.hpp"
#include "model/data/text.hpp"

namespace plumb {
namespace {

void judge_all(Table& rows, const std::vector<std::string>& key, const Start& start,
               const Bug& bug) {
  const Trace perturbed = run_perturbed(start, 1);
  for (const std::string rule : {"twins,replay", "perturbation", "flat", "assert-close"}) {
    CheckOptions options;
    options.perturbed = &perturbed;
    if (rule == "twins,replay") {
      options.rules = {"twins", "replay"};
    } else {
      options.rules = {rule};
    }
    const Trial t = run_trial(start, bug, {}, options);
    // Structure needs no rule: what a rule adds are its own findings.
    const auto own = [](const Verdict& v) {
      std::size_t n = 0;
      for (const Finding& f : v.findings) n += f.statistic == "structure" ? 0 : 1;
      return std::to_string(n);
    };
    std::vector<std::string> row = key;
    for (const std::string& text :
         {rule, std::string(t.reached ? "1" : "0"), std::string(t.changed ? "1" : "0"),
          cell(t.effect), std::string(t.broken.findings.empty() ? "0" : "1"), own(t.broken),
          t.broken.blamed.empty() ? std::string("-") : t.broken.blamed,
          std::string(t.blamed_right ? "1" : "0"),
          std::string(t.healthy.findings.empty() ? "0" : "1"), own(t.healthy)}) {
      row.push_back(text);
    }
    rows.add(row);
  }
}

void run(Table& rows, const Effort& effort) {
  for (int seed = 1; seed <= 5 * effort.scale; ++seed) {
    for (const Bug* bug : all_bugs()) {
      for (const Family family : bug->needs.families) {
        for (const std::string weights : {"random", "trained"}) {
          if (effort.out_of_time()) return;
          const std::vector<std::string> key{std::string(bug->id), name_of(family), weights,
                                             std::string(bug->needs.recipe), std::to_string(seed)};
          std::vector<std::string> last = key;
          last.emplace_back("assert-close");
          if (rows.has(last)) continue;
          const Layout layout = parse_layout(std::string(bug->needs.layout));
          const Recipe recipe = find_recipe(std::string(bug->needs.recipe));
          Config config = config_of(name_of(family));
          config.seed = static_cast<std::uint64_t>(seed);
          Start start = weights == "random" ? start_of(config, recipe, layout, default_text())
                                            : effort.trained(family, layout, config.seed);
          start.run.recipe = recipe;
          judge_all(rows, key, start, *bug);
          effort.progress(key[0] + " " + key[1] + " " + weights + " seed " + key[4]);
        }
      }
    }
  }
}

}  // namespace

extern const Experiment detection_rate{
    .name = "detection-rate",
    .question = "Which planted bugs does each rule notice, and when does it cry wolf?",
    .columns = {"bug", "family", "weights", "recipe", "seed", "rule", "reached", "changed",
                "effect", "detected", "own_findings", "blamed", "blamed_right", "false_alarm",
                "own_false_findings"},
    .keys = 6,
    .run = run,
};

}  // namespace plumb
