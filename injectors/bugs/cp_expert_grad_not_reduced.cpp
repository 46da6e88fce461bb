#include "injectors/bug.hpp"
#include "model/joints/gradients.hpp"

namespace plumb::injectors {

extern const Bug cp_expert_grad_not_reduced{
    .id = "cp-expert-grad-not-reduced",
    .title = "Gradients of experts not summed over context-parallel ranks",
    .kind = BugKind::missing_sum,
    .story =
        "Each context-parallel rank sends its own tokens' copies to the experts, so an expert's "
        "gradient is a partial sum on each. Experts are reduced in a group of their own; one that "
        "was made without the contexts leaves each rank's experts to its own tokens.",
    .seen_in = "made up here: the experts' kin of cp-weight-grad-not-reduced",
    .needs = {.layout = "cp2", .experts = true},
    .hides_when = "no context parallelism",
    .bites_at =
        [](const Config& c) {
          return "m0/layers." + std::to_string(c.blocks() - 1) + ".mlp.experts.0.fc2.weight/wgrad";
        },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.gradients.sums_over_contexts.replace([](const Where& where) {
            return where.module.find(".experts.") == std::string::npos;
          });
        },
};

}  // namespace plumb::injectors
