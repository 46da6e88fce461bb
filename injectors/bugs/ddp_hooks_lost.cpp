#include "injectors/bug.hpp"
#include "model/joints/gradients.hpp"

namespace plumb::injectors {

extern const Bug ddp_hooks_lost{
    .id = "ddp-hooks-lost",
    .title = "Gradients are never summed over data-parallel ranks",
    .kind = BugKind::missing_sum,
    .story =
        "The hooks that start the sum were on tensors that moving or wrapping the model has "
        "replaced. Each rank trains on its own data; losses of all ranks fall.",
    .seen_in = "PyTorch #104336",
    .needs = {.layout = "dp2"},
    .hides_when = "one data-parallel rank",
    .bites_at = first_main_grad,
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.gradients.sums_over_batches.replace([](const Where&) { return false; });
        },
};

}  // namespace plumb::injectors
