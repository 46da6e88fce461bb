#include "injectors/bug.hpp"
#include "model/joints/gradients.hpp"

namespace plumb::injectors {

extern const Bug sp_router_grad_not_reduced{
    .id = "sp-router-grad-not-reduced",
    .title = "The router's weight gradient is not summed over sequence-parallel ranks",
    .kind = BugKind::missing_sum,
    .story =
        "The router is replicated and sees slices of the tokens, so its gradient is a partial "
        "sum on each rank; it was not on the list of parameters whose gradients are summed, "
        "and the routers drifted apart.",
    .seen_in = "Megatron-LM #599, PR 619",
    .paper = {6},
    .needs = {.layout = "tp2,sp", .experts = true},
    .hides_when = "no sequence parallelism",
    .bites_at =
        [](const Config& config) {
          return "m0/layers." + std::to_string(config.layers - 1) + ".mlp.router.weight/wgrad";
        },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.gradients.sums_over_sequence.replace([](const Where& where, bool promised) {
            return promised && !where.module.ends_with("router.weight");
          });
        },
};

}  // namespace plumb::injectors
