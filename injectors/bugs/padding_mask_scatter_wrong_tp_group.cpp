#include "injectors/bug.hpp"
#include "model/joints/layers.hpp"

namespace plumb::injectors {

extern const Bug padding_mask_scatter_wrong_tp_group{
    .id = "padding-mask-scatter-wrong-tp-group",
    .title = "Tokens are scattered to the ranks of another group's order",
    .kind = BugKind::communication,
    .story =
        "What every rank has whole is cut into slices of tokens by the rank's number in a group "
        "that counts the other way. Each rank goes on with another one's tokens, in the place of "
        "its own.",
    .seen_in = "Megatron-LM #7452, #5563",
    .needs = {.layout = "tp2,sp"},
    .hides_when = "no sequence parallelism",
    .bites_at = [](const Config&) { return std::string("m0/embedding/out"); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.sequence.keeps_tokens_of.replace([](const Where& where, int promised) {
            const bool embeds = where.layer < 0 && !where.backward;
            return embeds ? where.tp_size - 1 - promised : promised;
          });
        },
};

}  // namespace plumb::injectors
