#include "experiments/training.hpp"

#include "model/plan.hpp"
#include "model/state.hpp"
#include "trace/execute.hpp"

namespace plumb {

Start trained(Start start, std::string_view text, int steps,
              const std::function<void(int, double)>& told) {
  const int last = start.run.step + steps - 1;
  while (start.run.step < last) {
    const Graph graph = plan(start.run.config, start.run.recipe, {}, start.run.step);
    const Values step = reference(graph, start.leaves);
    told(start.run.step, static_cast<double>(step.at("loss/out")->values[0]));
    start.leaves = next_state(start.run.config, step);
    ++start.run.step;
    start.leaves.merge(step_data(start.run.config, text, start.run.step));
  }
  return start;
}

}  // namespace plumb
