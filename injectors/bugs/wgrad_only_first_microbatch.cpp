#include <algorithm>

#include "injectors/bug.hpp"
#include "model/joints/gradients.hpp"

namespace plumb::injectors {

extern const Bug wgrad_only_first_microbatch{
    .id = "wgrad-only-first-microbatch",
    .title = "Only the first micro-batch's gradients are kept",
    .kind = BugKind::stale_data,
    .story =
        "The flag that says a gradient has been added to its buffer is not taken back between "
        "micro-batches, so that those of later ones are thrown away.",
    .seen_in = "AMD Primus #1046; DeepSpeed #7981, #7967, #6550",
    .needs = {.layout = "tp2", .micro_batches = 2},
    .hides_when = "one micro-batch a rank",
    .bites_at = first_main_grad,
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.gradients.part.replace([](const Where& where, Tensor& part) {
            if (where.micro_batch >= where.dp_size) std::ranges::fill(part.values, 0.0F);
          });
        },
};

}  // namespace plumb::injectors
