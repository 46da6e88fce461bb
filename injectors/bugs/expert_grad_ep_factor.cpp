#include "injectors/bug.hpp"
#include "model/joints/gradients.hpp"

namespace plumb::injectors {

extern const Bug expert_grad_ep_factor{
    .id = "expert-grad-ep-factor",
    .title = "Gradients of experts come out as many times too large as ranks share them",
    .kind = BugKind::scaling,
    .story =
        "An expert's gradient already holds the tokens of all ranks that share the experts. "
        "Divided by the ranks that have the same expert instead of by all, it is too large by "
        "the expert-parallel degree; Adam hides the factor from the loss.",
    .seen_in = "Megatron-LM #5956, torchtitan #1551, #1793, DeepSpeed #6546, #4957",
    .paper = {4, Match::guess},
    .needs = {.layout = "dp2,ep2", .experts = true},
    .hides_when = "no expert parallelism",
    .bites_at =
        [](const Config&) { return std::string("layers.0.mlp.experts.0.fc1.weight/main_grad"); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.gradients.factor.replace([](const Where& where) {
            const bool of_expert = where.module.find(".experts.") != std::string::npos;
            return of_expert ? static_cast<float>(where.ep_size) : 1.0F;
          });
        },
};

}  // namespace plumb::injectors
