#include "experiments/training.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "model/plan.hpp"
#include "model/state.hpp"
#include "trace/execute.hpp"

namespace plumb {
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

Start trained(Start start, std::string_view text, int steps,
              const std::function<void(int, double)>& told) {
  const double rate = start.run.config.rate;
  for (int i = 1; i <= steps; ++i) {
    start.run.config.rate = rate * rate_at(i, steps);
    if (i == steps) break;
    const Graph graph = plan(start.run.config, start.run.recipe, {}, start.run.step);
    const Values step = reference(graph, start.leaves);
    told(start.run.step, static_cast<double>(step.at("loss/out")->values[0]));
    start.leaves = next_state(start.run.config, start.run.recipe, step);
    ++start.run.step;
    start.leaves.merge(step_data(start.run.config, text, start.run.step));
  }
  return start;
}

}  // namespace plumb
