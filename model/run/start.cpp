#include "model/run/start.hpp"

#include "model/plan/plan.hpp"
#include "model/run/reference.hpp"
#include "model/spec/manifest.hpp"
#include "model/state/state.hpp"
#include "trace/execute.hpp"

namespace plumb::model {

namespace {

// Fills empty histories with those of one step that scales each tensor by itself: a calibration, so
// that the first steps do not have scales of one.
void calibrate(Start& start) {
  Recipe by_itself = start.run.recipe;
  if (delayed_operands(start.run.config, by_itself).empty()) return;
  for (const auto cast :
       {&OperandCasts::activations, &OperandCasts::weights, &OperandCasts::gradients}) {
    OperandCast& how = by_itself.operands.value().*cast;
    if (how.scaling == Scaling::delayed) how.scaling = Scaling::tensor;
  }
  Values step = reference(plan(start.run.config, by_itself, {}, start.run.step), start.leaves);
  const Graph delayed = plan(start.run.config, start.run.recipe, {}, start.run.step);
  for (const Node& node : delayed.nodes) {
    if (!traits_of(node).keeps_history) continue;
    const float latest = start.leaves.at(node.inputs.front())->values.front();
    if (latest != 0) continue;
    const Values made = reference(Graph{{node}}, step);
    start.leaves[node.inputs.front()] = made.at(node.outputs.front());
  }
}

void refuse_rewritten(const Trace& trace) {
  if (run_from(trace.manifest).rewriting == Rewriting::none) return;
  throw Failure(
      "the trace is of a rewritten run, whose gradients are of tensors that no module made: no "
      "step goes on from it; trace the run without --rewrite");
}

}  // namespace

Start start_of(const Config& config, const Recipe& recipe, const Layout& layout,
               std::string_view text, const Trace* loaded) {
  Start start{{config, recipe, layout, 1}, {}};
  if (loaded != nullptr) {
    refuse_rewritten(*loaded);
    const Training earlier = run_from(loaded->manifest);
    start.run.config = earlier.config;  // the weights decide the model, the caller the rest
    start.run.config.seed = config.seed;
    start.run.config.rate = config.rate;
    for (const Size& size : sizes()) {
      if (!size.of_model()) start.run.config.*size.field = config.*size.field;
    }
    start.run.step = earlier.step + 1;
    start.leaves = next_state(start.run.config, earlier.recipe, merge(*loaded).values);
  }
  check_layout(layout, start.run.config);
  check_recipe(recipe, layout, start.run.config);
  Values data = step_data(start.run.config, text, start.run.step);  // refuses a short text at once
  if (loaded == nullptr) {
    start.leaves = initial_state(start.run.config, recipe);
  } else {
    cast_state(start.run.config, recipe, start.leaves);
  }
  start.leaves.merge(data);
  calibrate(start);
  return start;
}

Start with_data(Start start, std::string_view text, std::uint64_t seed) {
  start.run.config.seed = seed;
  for (auto& [id, tensor] : step_data(start.run.config, text, start.run.step)) {
    start.leaves[id] = tensor;
  }
  return start;
}

static Training on_one_device(const Start& start) {
  Training single = start.run;
  single.layout = {};
  return single;
}

Trace run_reference(const Start& start) {
  const Training single = on_one_device(start);
  return reference_trace(single, reference(plan(single), start.leaves));
}

static std::map<std::string, Format> formats_of(const Trace& reference) {
  std::map<std::string, Format> formats;
  for (const auto& [id, shard] : reference.ranks.front().shards) formats[id] = shard.format;
  return formats;
}

ExecutedReference::ExecutedReference(const Start& start)
    : ExecutedReference(start, reference(plan(on_one_device(start)), start.leaves)) {}

ExecutedReference::ExecutedReference(const Start& start, const Values& values)
    : trace_(reference_trace(on_one_device(start), values)),
      merged_(merged_of(values, formats_of(trace_))) {}

Trace run_perturbed(const Start& start, std::uint64_t seed) {
  const Training single = on_one_device(start);
  const Graph graph = plan(single);
  return reference_trace(single, perturbed(graph, start.leaves, "/embedding/out", seed));
}

Candidate run_candidate(const Start& start, const Joints& joints, const std::string& backend,
                        World& world, std::vector<StaleGradients>* stale,
                        std::vector<Waits>* waits) {
  Candidate candidate{
      train_step(start.run, start.leaves, joints, find_backend(backend), world, stale, waits),
      false};
  candidate.reached = joints.reached();
  return candidate;
}

Start step_after(Start start, const Values& step) {
  for (auto& [id, tensor] : next_state(start.run.config, start.run.recipe, step)) {
    start.leaves[id] = tensor;
  }
  ++start.run.step;
  return start;
}

}  // namespace plumb::model
