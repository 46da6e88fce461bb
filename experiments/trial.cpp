#include "experiments/trial.hpp"

#include <algorithm>
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
    if (found->second->values == tensor->values) continue;
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

}  // namespace

Runs runs_of(const Start& first, const Bug& bug, const Dose& dose, Rewriting rewriting) {
  std::vector<StaleGradients> stale;
  Start start = first;
  if (bug.in_the_next_step) {
    run_candidate(first, &bug, dose, "reference", threads(), &stale);
    start = step_after(first, merge(run_reference(first)).values);
  }
  start = rewritten(std::move(start), rewriting);
  Trace reference = run_reference(start);
  Candidate healthy = run_candidate(start);
  Candidate broken = run_candidate(start, &bug, dose, "reference", threads(), &stale);
  return {std::move(start), std::move(reference), std::move(healthy), std::move(broken)};
}

Trial changes_of(const Runs& runs, const Bug& bug, const Merged& healthy, const Merged& broken) {
  Trial seen;
  compare(runs.healthy, healthy, runs.broken, broken, seen);
  seen.bites_at = bug.bites_at(runs.start.run.config);
  return seen;
}

std::vector<Trial> run_trials(const Start& first, const Bug& bug, const Dose& dose,
                              const std::vector<CheckOptions>& ways, Rewriting rewriting) {
  const Runs runs = runs_of(first, bug, dose, rewriting);
  std::optional<Trace> perturbed;  // of the step that is judged, where that is not `first`
  const auto asks = [](const CheckOptions& options) { return options.perturbed != nullptr; };
  const bool another = bug.in_the_next_step || rewriting != Rewriting::none;
  if (another && std::ranges::any_of(ways, asks)) perturbed = run_perturbed(runs.start, 1);
  const Merged r = merge_verified(runs.reference);
  const Merged h = merge_verified(runs.healthy.trace), b = merge_verified(runs.broken.trace);
  const Trial seen = changes_of(runs, bug, h, b);
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

Trial run_trial(const Start& start, const Bug& bug, const Dose& dose, const CheckOptions& options,
                Rewriting rewriting) {
  return run_trials(start, bug, dose, {options}, rewriting).front();
}

}  // namespace plumb::experiments
