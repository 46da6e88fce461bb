#include "injectors/bug.hpp"
#include "model/joints/optimizer.hpp"

namespace plumb::injectors {

extern const Bug optimizer_steps_orphan_params{
    .id = "optimizer-steps-orphan-params",
    .title = "The optimizer steps tensors that no module has any more",
    .kind = BugKind::stale_data,
    .story =
        "Sharding replaces the parameters of the modules, and the optimizer was made with those "
        "of before. It steps without complaint, and the model stays what it was.",
    .seen_in = "Accelerate #2665, #3256",
    .needs = {.layout = "dp2,zero3"},
    .hides_when = "an optimizer that is made after sharding",
    .bites_at = [](const Config&) { return std::string("embedding.weight/exp_avg"); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.optimizer.updates.replace([](const Where&, bool in_shares) { return !in_shares; });
        },
};

}  // namespace plumb::injectors
