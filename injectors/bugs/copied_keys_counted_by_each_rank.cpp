#include "injectors/bug.hpp"
#include "model/joints/gradients.hpp"

namespace plumb::injectors {

extern const Bug copied_keys_counted_by_each_rank{
    .id = "copied-keys-counted-by-each-rank",
    .title = "The gradient of a copied key head counts once for each copy",
    .kind = BugKind::scaling,
    .story =
        "Each rank that has a copy of a key and value head hands on the sum of their gradients, "
        "and what is handed on is summed again: the head's gradient is as many times too large "
        "as it has copies.",
    .seen_in = "made up here: multi-query attention under tensor parallelism",
    .needs = {.families = {Family::llama}, .layout = "tp2", .settings = {{"kv_heads", "1"}}},
    .hides_when = "as many key heads as ranks",
    .bites_at =
        [](const Config& c) {
          return "m0/layers." + std::to_string(c.layers - 1) + ".attn.qkv/grad_in";
        },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.gradients.share_of_keys.replace([](const Where&, float) { return 1.0F; });
        },
};

}  // namespace plumb::injectors
