#include "injectors/bug.hpp"
#include "model/joints/experts.hpp"

namespace plumb::injectors {

extern const Bug expert_bias_counts_not_reduced{
    .id = "expert-bias-counts-not-reduced",
    .title = "Experts are balanced by what each data-parallel rank has counted",
    .kind = BugKind::missing_sum,
    .story =
        "The bias by which a router's choice is balanced moves by the copies that each expert took "
        "in the step. They are not summed over the data-parallel ranks, so that each rank moves "
        "its bias by its own tokens, and the routers drift apart.",
    .seen_in = "made up here: the data-parallel side of torchtitan #4154",
    .needs = {.layout = "dp2", .experts = true, .settings = {{"balance_bias", "0.001"}}},
    .hides_when = "one data-parallel rank; no balancing by bias",
    .bites_at = [](const Config&) { return std::string("layers.0.mlp.router/count"); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.router.counts_all_batches.replace([](const Where&) { return false; });
        },
};

}  // namespace plumb::injectors
