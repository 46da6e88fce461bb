#include "injectors/bug.hpp"
#include "model/joints/gradients.hpp"

namespace plumb::injectors {

extern const Bug mla_shared_key_grad_not_reduced{
    .id = "mla-shared-key-grad-not-reduced",
    .title = "The gradient of the key part that all heads share stays each rank's own",
    .kind = BugKind::missing_sum,
    .story =
        "One rotated part of the key serves all heads: it is copied to the heads of each rank, "
        "and backward summed over these, but not over the ranks. The loss looks fine; the "
        "projection learns from a share of the heads, another on each rank.",
    .seen_in = "Megatron-LM #1699, #6839; TransformerEngine #1975",
    .needs = {.layout = "tp2", .settings = {{"latent", "16"}, {"shared_key", "4"}}},
    .hides_when = "tp1, or keys without a shared part",
    .bites_at =
        [](const Config& c) {
          return "m0/layers." + std::to_string(c.blocks() - 1) + ".attn.shared_key/grad_out";
        },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.gradients.sums_over_heads.replace(
              [](const Where& where) { return !where.module.ends_with(".shared_key"); });
        },
};

}  // namespace plumb::injectors
