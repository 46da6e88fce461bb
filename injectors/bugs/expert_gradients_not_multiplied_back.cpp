#include "injectors/bug.hpp"
#include "model/joints/gradients.hpp"

namespace plumb::injectors {

extern const Bug expert_gradients_not_multiplied_back{
    .id = "expert-gradients-not-multiplied-back",
    .title = "Gradients of experts stay divided by what kept their sum small",
    .kind = BugKind::scaling,
    .story =
        "Parts of gradients are divided by a factor before they are summed over ranks, and the sum "
        "is multiplied by it. Experts are summed in a group of their own, by code that divides, "
        "too, and does not multiply; Adam hides the factor from the loss.",
    .seen_in = "made up here: the predivide factor of apex and DeepSpeed, in two places",
    .needs = {.layout = "dp2,predivide2", .experts = true},
    .hides_when = "nothing divided before the sum",
    .bites_at =
        [](const Config&) { return std::string("layers.0.mlp.experts.0.fc1.weight/main_grad"); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.gradients.multiplier.replace([](const Where& where, float promised) {
            return where.module.find(".experts.") == std::string::npos ? promised : 1.0F;
          });
        },
};

}  // namespace plumb::injectors
