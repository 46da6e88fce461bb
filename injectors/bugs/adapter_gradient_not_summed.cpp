#include "injectors/bug.hpp"
#include "model/joints/layers.hpp"

namespace plumb::injectors {

extern const Bug adapter_gradient_not_summed{
    .id = "adapter-gradient-not-summed",
    .title = "An adapter's low-rank gradient is not summed over tensor-parallel ranks",
    .kind = BugKind::missing_sum,
    .story =
        "The second matrix of an adapter beside a column-parallel layer is sliced as that layer "
        "is, and its input gradient is taken for whole. Each rank trains its copy of the first "
        "matrix by its own slice, and copies drift apart.",
    .seen_in = "made up here: adapters that wrap parallel layers without their communication",
    .needs = {.layout = "tp2", .settings = {{"adapter", "8"}}},
    .hides_when = "one tensor-parallel rank",
    .bites_at =
        [](const Config& c) {
          return "m0/layers." + std::to_string(c.layers - 1) + ".mlp.fc1.adapter_up/grad_in";
        },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.linear.sums_input_gradient.replace([](const Where& where) {
            return where.module.find(".adapter_up") == where.module.npos;
          });
        },
};

}  // namespace plumb::injectors
