#include "experiments/trial.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <set>

#include "model/plan/verify.hpp"
#include "model/run/rewriting.hpp"
#include "trace/difference.hpp"

namespace plumb::experiments {

Candidate run_candidate(const Start& start, const Bug* bug, const Dose& dose,
                        const std::string& backend, World& world,
                        std::vector<StaleGradients>* stale, std::vector<Waits>* waits) {
  Joints joints;
  if (bug != nullptr) bug->plant(joints, dose, start.run.config);
  return model::run_candidate(start, joints, backend, world, stale, waits);
}

namespace {

// What the bug changes of the healthy run.
void compare(const Candidate& healthy, const Merged& h, const Candidate& broken, const Merged& b,
             Trial& trial) {
  trial.reached = broken.reached;
  std::set<std::string> after_clipping;  // Adam's first step turns a flipped sign into a whole step
  for (const Node& node : healthy.trace.graph->nodes) {
    if (node.phase != Phase::optimizer) continue;
    after_clipping.insert(node.outputs.begin(), node.outputs.end());
  }
  for (const auto& [id, tensor] : b.values) {
    const auto found = h.values.find(id);
    if (found == h.values.end() || found->second->size() != tensor->size()) continue;
    if (same_bits(*found->second, *tensor)) continue;
    trial.changed = true;
    const double effect = difference(tensor->values, found->second->values).relative();
    if (effect > trial.effect && !after_clipping.contains(id)) {
      trial.effect = effect;
      trial.effect_at = id;
    }
  }
  trial.changed = trial.changed || b.findings.size() != h.findings.size() ||
                  b.not_finite.size() != h.not_finite.size();
}

// The first tensor, in the order of the promise, that has other bits; empty: none.
std::string first_change(const Graph& promise, const Merged& h, const Merged& b) {
  for (const Node& node : promise.nodes) {
    for (const std::string& id : node.outputs) {
      const auto one = h.values.find(id), other = b.values.find(id);
      if (one == h.values.end() || other == b.values.end()) continue;
      if (!same_bits(*one->second, *other->second)) return id;
    }
  }
  return {};
}

}  // namespace

bool same_bits(const Tensor& a, const Tensor& b) {
  const auto bits = [](float x) { return std::bit_cast<std::uint32_t>(x); };
  return std::ranges::equal(a.values, b.values, {}, bits, bits);
}

Planted planted(const Bug& bug, const Dose& dose, const Config& config) {
  return {[&bug, dose](Joints& joints, const Config& c) { bug.plant(joints, dose, c); },
          bug.in_the_next_step, bug.bites_at ? bug.bites_at(config) : std::string()};
}

Runs runs_of(const Start& first, const Planted& wrong, Rewriting rewriting) {
  std::vector<StaleGradients> stale;
  const auto broken_run = [&](const Start& start) {
    Joints joints;
    wrong.plant(joints, start.run.config);
    return model::run_candidate(start, joints, "reference", threads(), &stale);
  };
  Start start = first;
  if (wrong.in_the_next_step) {
    broken_run(first);
    start = step_after(first, merge(run_reference(first)).values);
  }
  start = rewritten(std::move(start), rewriting);
  Trace reference = run_reference(start);
  Candidate healthy = run_candidate(start, nullptr), broken = broken_run(start);
  return {std::move(start), std::move(reference), std::move(healthy), std::move(broken)};
}

Trial changes_of(const Runs& runs, const Planted& wrong, const Merged& healthy,
                 const Merged& broken) {
  Trial seen;
  compare(runs.healthy, healthy, runs.broken, broken, seen);
  seen.bites_at = wrong.bites_at.empty() ? first_change(*runs.healthy.trace.graph, healthy, broken)
                                         : wrong.bites_at;
  return seen;
}

std::vector<Trial> run_trials(const Start& first, const Planted& wrong,
                              const std::vector<CheckOptions>& ways, Rewriting rewriting) {
  const Runs runs = runs_of(first, wrong, rewriting);
  std::optional<Trace> perturbed;  // of the step that is judged, where that is not `first`
  const auto asks = [](const CheckOptions& options) { return options.perturbed != nullptr; };
  const bool another = wrong.in_the_next_step || rewriting != Rewriting::none;
  if (another && std::ranges::any_of(ways, asks)) perturbed = run_perturbed(runs.start, 1);
  const Merged r = merge_verified(runs.reference);
  const Merged h = merge_verified(runs.healthy.trace), b = merge_verified(runs.broken.trace);
  const Trial seen = changes_of(runs, wrong, h, b);
  const Reference trusted(runs.reference, r);
  std::vector<Trial> trials(ways.size(), seen);
  for (std::size_t i = 0; i < ways.size(); ++i) {
    CheckOptions options = ways[i];
    if (options.perturbed != nullptr && perturbed) options.perturbed = &*perturbed;
    trials[i].healthy = check(trusted, runs.healthy.trace, h, options);
    trials[i].broken = check(trusted, runs.broken.trace, b, options);
    trials[i].blamed_right = trials[i].broken.blamed == seen.bites_at;
  }
  return trials;
}

std::vector<Trial> run_trials(const Start& first, const Bug& bug, const Dose& dose,
                              const std::vector<CheckOptions>& ways, Rewriting rewriting) {
  return run_trials(first, planted(bug, dose, first.run.config), ways, rewriting);
}

Trial run_trial(const Start& start, const Bug& bug, const Dose& dose, const CheckOptions& options,
                Rewriting rewriting) {
  return run_trials(start, bug, dose, {options}, rewriting).front();
}

}  // namespace plumb::experiments
