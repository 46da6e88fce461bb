#include "injectors/bug.hpp"
#include "model/joints/attention.hpp"

namespace plumb::injectors {

extern const Bug qk_scale_local_layer_number{
    .id = "qk-scale-local-layer-number",
    .title = "Scores are scaled by the number of a layer within its stage",
    .kind = BugKind::computation,
    .story =
        "Scores are divided by the number of their layer, to keep half precision in range, and "
        "the softmax multiplies by it again. One of the two counts layers from the stage's first, "
        "so that later stages have scores that are too small. Backward is right here.",
    .seen_in = "Megatron-LM, merge request 2592",
    .needs = {.layout = "pp2"},
    .hides_when = "one stage",
    .bites_at =
        [](const Config& c) {
          return "m0/layers." + std::to_string((c.layers + 1) / 2) + ".attn.core/out";
        },
    .plant =
        [](Joints& joints, const Dose&, const Config& c) {
          joints.attention.after_scores.replace(
              [layers = c.layers](const Where& where, int, int, Tensor& scores) {
                const int in_stage = where.layer % ((layers + where.pp_size - 1) / where.pp_size);
                const float factor =
                    static_cast<float>(in_stage + 1) / static_cast<float>(where.layer + 1);
                for (float& score : scores.values) score *= factor;
              });
        },
};

}  // namespace plumb::injectors
