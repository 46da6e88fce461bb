#include "injectors/bug.hpp"
#include "model/joints/gradients.hpp"

namespace plumb::injectors {

extern const Bug metric_only_loss_scale{
    .id = "metric-only-loss-scale",
    .title = "The loss that is reported is as many times too large as there are contexts",
    .kind = BugKind::scaling,
    .story =
        "The sum over contexts of a loss that each has whole. Gradients do not know: the number "
        "in the log is wrong, and nothing else. A checker must name the number and no tensor "
        "besides.",
    .seen_in = "transformers #48167; torchtitan #1758, #761; Megatron-LM #6717",
    .needs = {.layout = "cp2"},
    .hides_when = "one context",
    .bites_at = [](const Config&) { return std::string("loss/out"); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.loss.reported.replace([](const Where& where, float promised) {
            return promised * static_cast<float>(where.cp_size);
          });
        },
};

}  // namespace plumb::injectors
