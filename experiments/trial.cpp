#include "experiments/trial.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
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

Candidate run_broken(const Start& first, const Start& start, const Planted& wrong) {
  std::vector<StaleGradients> stale;
  const auto run = [&](const Start& step) {
    Joints joints;
    wrong.plant(joints, step.run.config);
    return model::run_candidate(step, joints, "reference", threads(), &stale);
  };
  if (wrong.in_the_next_step) run(first);
  return run(start);
}

Start judged_start(const Start& first, bool late, Rewriting rewriting) {
  Start start = first;
  if (late) start = step_after(std::move(start), ExecutedReference(first).merged().values);
  return rewritten(std::move(start), rewriting);
}

Runs runs_of(const Start& first, const Planted& wrong) {
  Start start = judged_start(first, wrong.in_the_next_step);
  Trace reference = run_reference(start);
  Candidate healthy = run_candidate(start, nullptr), broken = run_broken(first, start, wrong);
  return {std::move(start), std::move(reference), std::move(healthy), std::move(broken)};
}

Trial changes_of(const Candidate& healthy, const Candidate& broken, const Planted& wrong,
                 const Merged& of_healthy, const Merged& of_broken) {
  Trial seen;
  compare(healthy, of_healthy, broken, of_broken, seen);
  seen.bites_at = wrong.bites_at.empty() ? first_change(*healthy.trace.graph, of_healthy, of_broken)
                                         : wrong.bites_at;
  return seen;
}

}  // namespace plumb::experiments
