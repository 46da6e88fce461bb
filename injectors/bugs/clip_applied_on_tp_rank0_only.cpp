#include "injectors/bug.hpp"
#include "model/joints/optimizer.hpp"

namespace plumb::injectors {

extern const Bug clip_applied_on_tp_rank0_only{
    .id = "clip-applied-on-tp-rank0-only",
    .title = "Gradients of replicated parameters are clipped on the first rank only",
    .kind = BugKind::scaling,
    .story =
        "A parameter that all tensor-parallel ranks hold whole counts once in the norm, by the "
        "first rank, and the same test keeps the others from scaling its gradient. Where clipping "
        "bites, copies drift apart; nothing shows it until they are merged.",
    .seen_in = "DeepSpeed #1801 (BLOOM-176B)",
    .needs = {.layout = "tp2"},
    .hides_when = "norms below the limit",
    .bites_at =
        [](const Config& c) {
          return std::string(c.family == Family::gpt ? "position" : "layers.0.norm1") +
                 ".weight/clipped_grad";
        },
    .plant =
        [](Joints& joints, const Dose&, const Config& c) {
          joints.optimizer.clips_by.replace([c](const Where& where, float coefficient) {
            const bool whole = parameter_of(c, where.module).sharding == Sharding::whole;
            return whole && where.tp > 0 ? 1.0F : coefficient;
          });
        },
};

}  // namespace plumb::injectors
