// How small a fault does each rule still see? Seven faults on trained weights, powers of two; every
// rule as `plumb check` applies it, twins at the family-wise level 1e-3 (trace/twins.md).
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <span>

#include "experiments/experiment.hpp"
#include "experiments/faults.hpp"
#include "experiments/learn.hpp"
#include "model/data/text.hpp"
#include "model/plan/plan.hpp"
#include "model/spec/manifest.hpp"
#include "trace/check.hpp"
#include "trace/execute.hpp"

namespace plumb::experiments {
namespace {

constexpr double level = 1e-3;
constexpr int smallest_exponent = -14;

// A check, and the columns of the table that it answers: one for each of its rules.
struct Asked {
  int twins;
  bool stored;  // spreads of 25 earlier batches
  double margin;
  std::span<const std::string_view> rules;
};
constexpr std::string_view all_of_them[] = {"twins", "replay", "perturbation", "flat"};
constexpr std::string_view twins_alone[] = {"twins"};
constexpr std::string_view twins_and_perturbation[] = {"twins", "perturbation"};
constexpr Asked checks[] = {
    {4, false, 2, all_of_them}, {2, true, 2, twins_alone}, {4, true, 4, twins_and_perturbation}};
constexpr std::size_t columns = 7;
using Answers = std::array<bool, columns>;

// A step of a trained model: what every rule is given, made once.
class Scene {
 public:
  Scene(const Start& start, const StoredSpreads& stored)
      : start_(start),
        stored_(stored),
        reference_(run_reference(start)),
        perturbed_(run_perturbed(start, 1)),
        merged_(merge(reference_)),
        trusted_(reference_, merged_),
        candidate_{manifest_of(start.run), promise_of(start.run), {}},
        healthy_(trace::reference(*candidate_.graph, start.leaves)) {}

  const Training& run() const { return start_.run; }
  const Values& healthy() const { return healthy_; }

  // Which of the rules that are asked find fault with these values?
  Answers alarmed(const Answers& asked, const Values& wrong) const {
    Merged seen = merged_;
    const Values values =
        wrong.empty() ? healthy_ : with_replaced(*candidate_.graph, healthy_, wrong);
    for (const auto& [id, tensor] : values) seen.values[id] = tensor;
    Answers answers{};
    std::size_t column = 0;
    for (const Asked& check : checks) {
      const std::span here(answers.data() + column, check.rules.size());
      std::copy_n(asked.data() + column, here.size(), here.data());
      answer(check, seen, here);
      column += here.size();
    }
    return answers;
  }

 private:
  static Graph promise_of(const Training& run) {
    return plan(run.config, run.recipe, run.layout, run.step);
  }

  // `answers`: which rules are asked; then which of them accuse.
  void answer(const Asked& asked, const Merged& seen, std::span<bool> answers) const {
    CheckOptions options;
    options.rules.clear();
    for (std::size_t r = 0; r < answers.size(); ++r) {
      if (answers[r]) options.rules.emplace_back(asked.rules[r]);
    }
    if (options.rules.empty()) return;
    options.false_alarm = level;
    options.seed = start_.run.config.seed;
    options.twins = asked.twins;
    options.margin = asked.margin;
    options.spreads = asked.stored ? &stored_ : nullptr;
    options.perturbed = &perturbed_;
    const Verdict verdict = check(trusted_, candidate_, seen, options);
    for (std::size_t r = 0; r < answers.size(); ++r) {
      answers[r] = answers[r] && std::ranges::any_of(verdict.findings, [&](const Finding& f) {
                     const std::string rule = rule_of(f.statistic);
                     return rule == asked.rules[r] || rule == "structure";
                   });
    }
  }

  const Start& start_;
  const StoredSpreads& stored_;
  Trace reference_, perturbed_;
  Merged merged_;
  Reference trusted_;
  Trace candidate_;  // its manifest and promise; the values are `healthy_`, or faulty ones
  Values healthy_;
};

// The smallest power of two from which upwards a rule sees every fault that exists: a rule that
// misses one is not asked again.
std::vector<std::string> smallest(const Scene& scene, const Fault& fault) {
  Answers every;
  every.fill(true);
  const Answers accuses = scene.alarmed(every, {});
  Answers goes_on{};
  for (std::size_t r = 0; r < columns; ++r) goes_on[r] = !accuses[r];
  std::array<double, columns> least{};
  for (int e = 0; e >= smallest_exponent; --e) {
    if (std::ranges::none_of(goes_on, std::identity())) break;
    const auto wrong = fault.made(scene.run(), scene.healthy(), std::ldexp(1.0, e));
    if (!wrong) continue;
    goes_on = scene.alarmed(goes_on, *wrong);
    for (std::size_t r = 0; r < columns; ++r) {
      if (goes_on[r]) least[r] = std::ldexp(1.0, e);
    }
  }
  std::vector<std::string> cells;
  for (std::size_t r = 0; r < columns; ++r) {
    cells.push_back(accuses[r] ? "accuses" : least[r] == 0 ? "-" : cell(least[r]));
  }
  return cells;
}

// Returns the keys of whole rows that are not there yet.
std::vector<std::vector<std::string>> missing(const Table& rows, Family family,
                                              const std::string& recipe, int seed) {
  std::vector<std::vector<std::string>> keys;
  for (const Fault& fault : all_faults()) {
    std::vector<std::string> key{std::string(fault.name), name_of(family), recipe,
                                 std::to_string(seed)};
    if (!rows.settled(key)) keys.push_back(std::move(key));
  }
  return keys;
}

void one_model(Table& rows, const Effort& effort, Family family, const Recipe& recipe) {
  const Layout layout = parse_layout("dp2,tp2");
  StoredSpreads stored;
  for (int seed = 1; seed <= 4 * effort.scale; ++seed) {
    auto wanted = missing(rows, family, recipe.id, seed);
    if (wanted.empty()) continue;
    Config config = config_of(name_of(family));
    config.seed = static_cast<std::uint64_t>(seed);
    const Start start = effort.trained(recipe, layout, config);
    if (stored.learnt.tensors().empty()) {
      stored.learnt = learn(start, default_text(), 25, 8, [&](int batch) {
        effort.progress(name_of(family) + " " + recipe.id + ": learning batch " +
                        std::to_string(batch) + " of 25");
      });
    }
    const Scene scene(start, stored);
    for (std::vector<std::string>& row : wanted) {
      if (effort.out_of_time()) return;
      effort.progress(row[0] + " " + row[1] + " " + row[2] + " seed " + row[3]);
      const auto& fault = *std::ranges::find(all_faults(), row[0], &Fault::name);
      for (std::string& c : smallest(scene, fault)) row.push_back(std::move(c));
      rows.add(row);
    }
  }
}

void run(Table& rows, const Effort& effort) {
  for (const Family family : {Family::llama, Family::gpt}) {
    for (const char* recipe : {"bf16", "fp8-current"}) {
      one_model(rows, effort, family, find_recipe(recipe));
    }
  }
}

}  // namespace

extern const Experiment smallest_fault{
    .name = "smallest-fault",
    .question = "How small a fault does each rule still see, on trained weights?",
    .columns = {"fault", "family", "recipe", "seed", "twins-4", "replay", "perturbation-2", "flat",
                "stored-2", "stored-4", "perturbation-4"},
    .keys = 4,
    .run = run,
};

}  // namespace plumb::experiments
