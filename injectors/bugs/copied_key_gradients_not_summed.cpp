#include "injectors/bug.hpp"
#include "model/joints/gradients.hpp"

namespace plumb::injectors {

extern const Bug copied_key_gradients_not_summed{
    .id = "copied-key-gradients-not-summed",
    .title = "Gradients of a copied key head are not summed over its copies",
    .kind = BugKind::missing_sum,
    .story =
        "There are fewer key and value heads than tensor-parallel ranks, so each head has "
        "copies. Every rank's copy gets the gradient of its own query heads alone, and one of "
        "them is trained by that.",
    .seen_in = "made up here: multi-query attention under tensor parallelism",
    .needs = {.families = {Family::llama}, .layout = "tp2", .settings = {{"kv_heads", "1"}}},
    .hides_when = "as many key heads as ranks",
    .bites_at =
        [](const Config& c) {
          return "m0/layers." + std::to_string(c.layers - 1) + ".attn.core/grad_in";
        },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.gradients.sums_over_heads.replace([](const Where&) { return false; });
        },
};

}  // namespace plumb::injectors
