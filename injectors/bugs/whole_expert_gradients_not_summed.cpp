#include "injectors/bug.hpp"
#include "model/joints/gradients.hpp"

namespace plumb::injectors {

extern const Bug whole_expert_gradients_not_summed{
    .id = "whole-expert-gradients-not-summed",
    .title = "Gradients of experts that are whole are taken for those of slices",
    .kind = BugKind::missing_sum,
    .story =
        "With a tensor-parallel size of their own experts are whole on each tensor-parallel rank, "
        "which sends them the tokens of its slice. Their gradients are partial sums then, and "
        "code that was written for sliced experts, each with all tokens, does not add them up.",
    .seen_in = "made up here: moe-tp-dgrad-partial-as-replicated where experts are whole",
    .needs = {.layout = "tp2,sp,etp1", .experts = true},
    .hides_when = "experts in slices",
    .bites_at =
        [](const Config& c) {
          return "m0/layers." + std::to_string(c.blocks() - 1) + ".mlp.experts.0.fc2.weight/wgrad";
        },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.gradients.sums_over_sequence.replace([](const Where& where, bool promised) {
            return promised && where.module.find(".experts.") == std::string::npos;
          });
        },
};

}  // namespace plumb::injectors
