#include "injectors/bug.hpp"
#include "model/joints/gradients.hpp"

namespace plumb::injectors {

extern const Bug head_shared_norm_grad_not_reduced{
    .id = "head-shared-norm-grad-not-reduced",
    .title = "Gradients of QK-norm not summed over the ranks that share the heads",
    .kind = BugKind::missing_sum,
    .story =
        "The norm of queries and keys has one weight for all heads, so every rank holds it whole "
        "and sees the part of its own heads. It was taken for replicated and finished only under "
        "sequence parallelism, so without it the copies drifted apart.",
    .seen_in = "Megatron-LM #7452 (the norm of its gated attention), PaddleFleet #2008",
    .needs = {.layout = "tp2", .settings = {{"qk_norm", "1"}}},
    .hides_when = "tp1, or no norm of queries and keys",
    .bites_at =
        [](const Config& c) {
          return "m0/layers." + std::to_string(c.blocks() - 1) + ".attn.q_norm.weight/wgrad";
        },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.gradients.sums_over_heads.replace(
              [](const Where& where) { return where.module.find("_norm") == std::string::npos; });
        },
};

}  // namespace plumb::injectors
