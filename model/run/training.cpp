#include "model/run/training.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "model/plan/plan.hpp"
#include "model/spec/manifest.hpp"
#include "model/state/state.hpp"
#include "trace/execute.hpp"

namespace plumb::model {
namespace {

// Share of the full rate at step i of n (i = 1 ...): rises over the first sixteenth, then falls
// along a cosine to a twentieth. Weights trained at a constant rate stay rough: a few rows then
// carry most of a gradient, and single runs scatter by more than the tolerances are meant to show.
double rate_at(int i, int n) {
  const double done = static_cast<double>(i - 1) / n;
  const double rise = std::min(1.0, 16.0 * i / n);
  return rise * std::max(0.05, 0.5 * (1 + std::cos(std::numbers::pi * done)));
}

}  // namespace

void go_through(Start start, std::string_view text, int steps, const Step& step) {
  const double rate = start.run.config.rate;
  for (int i = 1; i <= steps; ++i) {
    start.run.config.rate = rate * rate_at(i, steps);
    const Values made = step(start);
    if (i == steps) return;
    start = step_after(std::move(start), made);
    for (auto& [id, tensor] : step_data(start.run.config, text, start.run.step)) {
      start.leaves[id] = tensor;
    }
  }
}

Start start_from(const Trace& trace, const Merged& merged, const Layout& layout) {
  if (!trace.graph)
    throw Failure(
        "the trace has no promise (graph.json), which says what a step starts from; trace again");
  Start start{run_from(trace.manifest), {}};
  start.run.layout = layout;
  check_layout(layout, start.run.config);
  check_recipe(start.run.recipe, layout, start.run.config);
  for (const std::string& id : leaves_of(*trace.graph)) {
    const auto found = merged.values.find(id);
    if (found == merged.values.end()) {
      throw Failure("the trace lacks '" + id + "', which its step starts from; trace again");
    }
    start.leaves[id] = found->second;
  }
  return start;
}

Start trained(Start start, std::string_view text, int steps,
              const std::function<void(int, double)>& told) {
  Start last;
  int left = steps;
  go_through(std::move(start), text, steps, [&](const Start& now) {
    if (--left == 0) last = now;
    if (left == 0) return Values();
    const Training& run = now.run;
    Values step = reference(plan(run.config, run.recipe, {}, run.step), now.leaves);
    told(run.step, static_cast<double>(step.at("loss/out")->values[0]));
    return step;
  });
  return last;
}

}  // namespace plumb::model
