#include "injectors/bug.hpp"
#include "model/joints/experts.hpp"

namespace plumb::injectors {

extern const Bug expert_bias_not_gated{
    .id = "expert-bias-not-gated",
    .title = "The bias of an expert is added without the probability of its choice",
    .kind = BugKind::computation,
    .story =
        "The fused path multiplies an expert's units by the router's probability before the last "
        "product, and adds the bias behind it: right for the weight, and not for the bias.",
    .seen_in = "Megatron-LM #5850",
    .needs = {.families = {Family::gpt}, .layout = "tp2", .experts = true},
    .hides_when = "experts without biases",
    .bites_at = [](const Config&) { return std::string("m0/layers.0.mlp.combine/out"); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.experts.gates_bias.replace([](const Where&) { return false; });
        },
};

}  // namespace plumb::injectors
