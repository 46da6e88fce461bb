#include "experiments/learn.hpp"

#include "model/plan/plan.hpp"
#include "trace/twins.hpp"

namespace plumb::experiments {

Learnt learn(const Start& start, std::string_view text, int batches, int twins,
             const std::function<void(int)>& told) {
  const Graph split = plan(start.run.config, start.run.recipe, start.run.layout, start.run.step);
  Learnt learnt;
  for (int batch = 1; batch <= batches; ++batch) {
    told(batch);
    // No seed that a user types.
    const std::uint64_t seed = start.run.config.seed + (static_cast<std::uint64_t>(batch) << 32);
    const Start other = with_data(start, text, seed);
    const ExecutedReference reference(other);
    const Merged& merged = reference.merged();
    CheckOptions options;
    options.twins = twins;
    options.seed = other.run.config.seed;
    const auto all = [](const std::string&) { return true; };
    learnt.add(draw_twins(*reference.trace().graph, merged, split, merged, all, options).measured);
  }
  return learnt;
}

}  // namespace plumb::experiments
