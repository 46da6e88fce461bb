#include "experiments/trial.hpp"

#include <set>

#include "model/plan/verify.hpp"
#include "trace/difference.hpp"

namespace plumb::experiments {

Candidate run_candidate(const Start& start, const Bug* bug, const Dose& dose,
                        const std::string& backend, World& world,
                        std::vector<StaleGradients>* stale) {
  Joints joints;
  if (bug != nullptr) bug->plant(joints, dose, start.run.config);
  return model::run_candidate(start, joints, backend, world, stale);
}

Trial run_trial(const Start& first, const Bug& bug, const Dose& dose, const CheckOptions& asked) {
  std::vector<StaleGradients> stale;
  Start start = first;
  CheckOptions options = asked;
  Trace perturbed;
  if (bug.in_the_next_step) {
    run_candidate(first, &bug, dose, "reference", threads(), &stale);
    start = step_after(first, merge(run_reference(first)).values);
    if (asked.perturbed != nullptr) {  // of the step that is judged
      perturbed = run_perturbed(start, 1);
      options.perturbed = &perturbed;
    }
  }
  const Trace reference = run_reference(start);
  const Merged r = merge_verified(reference);
  const Candidate healthy = run_candidate(start);
  const Merged h = merge_verified(healthy.trace);
  const Candidate broken = run_candidate(start, &bug, dose, "reference", threads(), &stale);
  const Merged b = merge_verified(broken.trace);

  Trial trial;
  trial.reached = broken.reached;
  std::set<std::string> after_clipping;  // Adam's first step turns a flipped sign into a whole step
  for (const Node& node : broken.trace.graph->nodes) {
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
  trial.healthy = check(reference, r, healthy.trace, h, options);
  trial.broken = check(reference, r, broken.trace, b, options);
  trial.bites_at = bug.bites_at(start.run.config);
  trial.blamed_right = trial.broken.blamed == trial.bites_at;
  return trial;
}

}  // namespace plumb::experiments
