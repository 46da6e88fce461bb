#include "injectors/bug.hpp"
#include "model/joints/gradients.hpp"

namespace plumb::injectors {

extern const Bug zero_grad_missing{
    .id = "zero-grad-missing",
    .title = "Gradients not cleared between steps",
    .kind = BugKind::stale_data,
    .story =
        "The buffer that gradients are added up in is not zeroed, so that every step adds its own "
        "to those of all steps before. The first step is right.",
    .seen_in = "StackOverflow 60335387, DeepSpeed #7839",
    .in_the_next_step = true,
    .needs = {.layout = "tp2"},
    .hides_when = "the first step, so wherever only that one is compared",
    .bites_at = first_main_grad,
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.gradients.starts_from_zero.replace([](const Where&, bool) { return false; });
        },
};

}  // namespace plumb::injectors
