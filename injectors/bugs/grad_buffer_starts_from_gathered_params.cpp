#include "injectors/bug.hpp"
#include "model/joints/gradients.hpp"

namespace plumb::injectors {

extern const Bug grad_buffer_starts_from_gathered_params{
    .id = "grad-buffer-starts-from-gathered-params",
    .title = "Gradients are accumulated onto parameters",
    .kind = BugKind::stale_data,
    .story =
        "The sharded optimizer gathers parameters into the memory of gradients, and nobody clears "
        "it. From the second step on every gradient has its parameter in it.",
    .seen_in = "Megatron-LM #4609, #2802",
    .in_the_next_step = true,
    .needs = {.layout = "dp2,zero1"},
    .hides_when = "the first step; buffers of their own",
    .bites_at = first_main_grad,
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.gradients.starts_from_parameter.replace([](const Where&) { return true; });
        },
};

}  // namespace plumb::injectors
