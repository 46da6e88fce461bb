#include "injectors/bug.hpp"
#include "model/joints/layers.hpp"

namespace plumb::injectors {

extern const Bug attention_mask_alike_on_tp_ranks{
    .id = "attention-mask-alike-on-tp-ranks",
    .title = "Tensor-parallel ranks drop the same probabilities of attention",
    .kind = BugKind::sharding,
    .story =
        "Attention draws its dropout from the generator that all ranks share, as the residual "
        "stream must, where each rank has other heads. So heads of different ranks drop the same "
        "keys: less noise than was asked for, and nothing else to see.",
    .seen_in = "made up here: attention outside of the fork of the generator",
    .needs = {.layout = "tp2", .settings = {{"attention_dropout", "0.1"}}},
    .hides_when = "one tensor-parallel rank; no dropout of probabilities",
    .bites_at = [](const Config&) { return std::string("m0/layers.0.attn.core/out"); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.dropout.head.replace(
              [](const Where&, std::size_t, std::size_t here) { return here; });
        },
};

}  // namespace plumb::injectors
