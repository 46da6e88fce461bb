#include "injectors/bug.hpp"
#include "model/joints/memory.hpp"
#include "model/state/state.hpp"

namespace plumb::injectors {

extern const Bug master_weights_not_refreshed_after_load{
    .id = "master-weights-not-refreshed-after-load",
    .title = "A checkpoint is loaded, and the masters are still those of before",
    .kind = BugKind::stale_data,
    .story =
        "Loading sets the parameters that forward takes. The FP32 masters that the optimizer "
        "steps are left as the program drew them, so that the first step throws the checkpoint "
        "away.",
    .seen_in = "NeMo-RL #2372; DeeperSpeed #56; Megatron-Bridge #3397",
    .needs = {.layout = "tp2"},
    .hides_when = "recipes without masters; a model that is trained from its start",
    .bites_at = [](const Config&) { return std::string("embedding.weight/master@previous"); },
    .plant =
        [](Joints& joints, const Dose&, const Config& c) {
          Config other = c;
          ++other.seed;
          joints.state.loads.replace(
              [of_start = initial_state(other, find_recipe("bf16"))](
                  const Where&, const std::string& id, std::shared_ptr<const Tensor> whole) {
                return id.ends_with("/master@previous") ? of_start.at(id) : whole;
              });
        },
};

}  // namespace plumb::injectors
