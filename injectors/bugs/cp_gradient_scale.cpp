#include "injectors/bug.hpp"
#include "model/joints/gradients.hpp"

namespace plumb::injectors {

extern const Bug cp_gradient_scale{
    .id = "cp-gradient-scale",
    .title = "Gradients come out as many times too large as there are contexts",
    .kind = BugKind::scaling,
    .story =
        "The loss is multiplied by the context-parallel degree, because gradients are averaged "
        "over data- and context-parallel ranks alike afterwards. They were averaged over "
        "data-parallel ranks alone. Adam does not see a factor, so the loss looks normal.",
    .seen_in = "Megatron-LM #673, #906; DeepSpeed #5555 (along Ulysses)",
    .paper = {3, Match::likely},
    .needs = {.layout = "cp2"},
    .hides_when = "no context parallelism; in parameters, where nothing is clipped",
    .bites_at = first_main_grad,
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.gradients.factor.replace(
              [](const Where& where) { return static_cast<float>(where.cp_size); });
        },
};

}  // namespace plumb::injectors
