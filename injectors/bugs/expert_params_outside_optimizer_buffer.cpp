#include "injectors/bug.hpp"
#include "model/joints/optimizer.hpp"

namespace plumb::injectors {

extern const Bug expert_params_outside_optimizer_buffer{
    .id = "expert-params-outside-optimizer-buffer",
    .title = "Experts are never updated",
    .kind = BugKind::stale_data,
    .story =
        "The gradients of experts lie in buffers that the sharded optimizer does not know. They are "
        "reduced, and clipped with the others, and nothing takes them: experts stay what they were "
        "at the start, while everything around them learns.",
    .seen_in = "Megatron-LM #565",
    .paper = {9, Match::likely},
    .needs = {.layout = "dp2,ep2,zero1", .experts = true},
    .hides_when = "no ZeRO, or dense models",
    .bites_at =
        [](const Config&) { return std::string("layers.0.mlp.experts.0.fc1.weight/exp_avg"); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.optimizer.updates.replace([](const Where& where, bool in_shares) {
            return !in_shares || where.module.find(".experts.") == std::string::npos;
          });
        },
};

}  // namespace plumb::injectors
