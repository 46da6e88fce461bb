#include "injectors/bug.hpp"
#include "model/joints/gradients.hpp"

namespace plumb::injectors {

extern const Bug cp_weight_grad_not_reduced{
    .id = "cp-weight-grad-not-reduced",
    .title = "Weight gradients not summed over context-parallel ranks",
    .kind = BugKind::missing_sum,
    .story =
        "Each rank has some tokens of every sequence, so every weight gradient is a partial sum. A "
        "reduction over data-parallel ranks alone leaves each context with its own tokens' part.",
    .seen_in = "made up here: the context-parallel kin of sp-norm-grad-not-reduced",
    .needs = {.layout = "cp2"},
    .hides_when = "no context parallelism",
    .bites_at =
        [](const Config& c) {
          return std::string(c.mtp > 0 ? "m0/head.loss.weight/wgrad" : "m0/head.weight/wgrad");
        },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.gradients.sums_over_contexts.replace([](const Where&) { return false; });
        },
};

}  // namespace plumb::injectors
