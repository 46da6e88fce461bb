// How small a fault does each rule still see? Seven faults on trained weights, powers of two; twins
// at the family-wise level 1e-3, as the study before the code had them (trace/twins.md).
#include <array>
#include <cmath>

#include "experiments/experiment.hpp"
#include "experiments/faults.hpp"
#include "experiments/learn.hpp"
#include "model/data/text.hpp"
#include "model/plan.hpp"
#include "trace/baselines.hpp"
#include "trace/execute.hpp"
#include "trace/replay.hpp"
#include "trace/selection.hpp"
#include "trace/twins.hpp"

namespace plumb::experiments {
namespace {

constexpr double level = 1e-3;
constexpr int smallest_exponent = -14;

enum Rule : std::size_t { twins_4, stored_2, stored_4, by_replay, ttrace_2, ttrace_4, flat };
constexpr std::size_t rules = 7;
using Answers = std::array<bool, rules>;

// A batch of a trained model: the data of every rule, made once.
class Scene {
 public:
  Scene(const Start& start, const StoredSpreads& stored) : start_(start), stored_(stored) {
    const Trace reference = run_reference(start);
    one_ = *reference.graph;
    manifest_ = reference.manifest;
    reference_ = merge(reference);
    many_ = plan(start.run.config, start.run.recipe, start.run.layout, start.run.step);
    healthy_ = trace::reference(many_, start.leaves, {Phase::reduce});
    CheckOptions options;
    options.seed = start.run.config.seed;
    twins_ = make_twins(one_, reference_.values, many_, options);
    perturbed_ = perturbed(one_, start.leaves, "/embedding/out", 1, {Phase::reduce});
  }

  const Training& run() const { return start_.run; }
  const Values& healthy() const { return healthy_; }

  // Which of the rules that are asked find fault with these values?
  Answers alarmed(const Answers& asked, const Values& wrong) const {
    const Values values =
        wrong.empty() ? healthy_ : with_replaced(many_, healthy_, wrong, {Phase::reduce});
    Merged candidate = reference_;
    for (const auto& [id, tensor] : values) candidate.values[id] = tensor;
    Answers seen{};
    if (asked[twins_4] || asked[stored_4]) {
      const Drawn four = drawn(candidate, 4);
      seen[twins_4] = asked[twins_4] && by_twins(four, candidate, wrong, nullptr);
      seen[stored_4] = asked[stored_4] && by_twins(four, candidate, wrong, &stored_);
    }
    if (asked[stored_2]) seen[stored_2] = by_twins(drawn(candidate, 2), candidate, wrong, &stored_);
    seen[by_replay] = asked[by_replay] && replayed(values, wrong);
    seen[ttrace_2] = asked[ttrace_2] && by_size("perturbation", values, 2);
    seen[ttrace_4] = asked[ttrace_4] && by_size("perturbation", values, 4);
    seen[flat] = asked[flat] && by_size("flat", values, 1);
    return seen;
  }

 private:
  struct Drawn {
    std::vector<Values> twins;
    std::vector<Measured> measured;
  };
  Drawn drawn(const Merged& candidate, std::ptrdiff_t count) const {
    Drawn d{{twins_.begin(), twins_.begin() + count}, {}};
    d.measured = measure(one_, reference_, many_, candidate, d.twins,
                         [](const std::string&) { return true; });
    return d;
  }

  // As in check, a finding that one row alone causes counts where replay finds the node wrong.
  bool by_twins(const Drawn& drawn, const Merged& candidate, const Values& wrong,
                const StoredSpreads* stored) const {
    CheckOptions options;
    options.false_alarm = level;
    options.spreads = stored;
    const TwinsJudgement seen =
        conclude(drawn.measured, reference_, candidate, drawn.twins, options);
    return std::ranges::any_of(seen.findings, [&](const Finding& f) {
      return !seen.one_row.contains(f.id) || wrong.contains(f.id);
    });
  }

  // Replays only the nodes that went wrong: all others follow their promise bit by bit.
  bool replayed(const Values& values, const Values& wrong) const {
    const auto wanted = [&](const std::string& id) { return wrong.contains(id); };
    return !replay(many_, values, wanted).findings.empty();
  }

  bool by_size(const std::string& rule, const Values& values, double margin) const {
    for (const Node& node : many_.nodes) {
      if (!judged_by_twins(node)) continue;
      for (const std::string& id : node.outputs) {
        const Tensor& r = *reference_.values.at(id);
        if (r.size() == 1) continue;
        if (baseline(rule, id, r, *values.at(id), perturbed_, margin, manifest_).ratio > 1)
          return true;
      }
    }
    return false;
  }

  const Start& start_;
  const StoredSpreads& stored_;
  Graph one_, many_;
  Manifest manifest_;
  Merged reference_;
  Values healthy_, perturbed_;
  std::vector<Values> twins_;
};

// The smallest power of two from which upwards a rule sees every fault that exists.
std::vector<std::string> smallest(const Scene& scene, const Fault& fault) {
  Answers every;
  every.fill(true);
  const Answers accuses = scene.alarmed(every, {});
  Answers goes_on{};
  for (std::size_t r = 0; r < rules; ++r) goes_on[r] = !accuses[r];
  std::array<double, rules> least{};
  for (int e = 0; e >= smallest_exponent; --e) {
    const auto wrong = fault.made(scene.run(), scene.healthy(), std::ldexp(1.0, e));
    if (!wrong) continue;
    goes_on = scene.alarmed(goes_on, *wrong);
    for (std::size_t r = 0; r < rules; ++r) {
      if (goes_on[r]) least[r] = std::ldexp(1.0, e);
    }
  }
  std::vector<std::string> cells;
  for (std::size_t r = 0; r < rules; ++r) {
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
    .columns = {"fault", "family", "recipe", "seed", "twins-4", "stored-2", "stored-4", "replay",
                "perturbation-2", "perturbation-4", "flat"},
    .keys = 4,
    .run = run,
};

}  // namespace plumb::experiments
