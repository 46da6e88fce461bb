#include "injectors/bug.hpp"
#include "model/joints/layers.hpp"

namespace plumb::injectors {

extern const Bug moe_tp_dgrad_partial_as_replicated{
    .id = "moe-tp-dgrad-partial-as-replicated",
    .title = "The gradient of the experts' input stays a partial sum on each rank",
    .kind = BugKind::missing_sum,
    .story =
        "Experts are sliced by columns, so the gradient of what they take in is a sum over "
        "the ranks. It was labelled as replicated, and nobody summed it: all below, the "
        "router included, gets one rank's share.",
    .seen_in = "torchtitan #1878, #2387, #2416, #4054",
    .needs = {.layout = "tp2", .experts = true},
    .hides_when = "tp1",
    .bites_at =
        [](const Config& config) {
          return "m0/layers." + std::to_string(config.layers - 1) + ".mlp.experts.fc1/grad_in";
        },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.linear.sums_input_gradient.replace([](const Where& where) {
            return where.module.find(".experts.") == std::string::npos;
          });
        },
};

}  // namespace plumb::injectors
