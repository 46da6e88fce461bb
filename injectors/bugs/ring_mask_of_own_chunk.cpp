#include "injectors/bug.hpp"
#include "model/joints/layout.hpp"

namespace plumb::injectors {

extern const Bug ring_mask_of_own_chunk{
    .id = "ring-mask-of-own-chunk",
    .title = "Keys that come round masked as if they were the rank's own",
    .kind = BugKind::sharding,
    .story =
        "At each turn of ring attention the causal mask follows from whose keys have come. The "
        "turn was not counted, so that keys of other ranks were masked by the positions of the "
        "rank's own, which are right in the first turn only.",
    .seen_in = "made up here, after reports of ring attention's masks under zigzag",
    .needs = {.layout = "cp2:ring"},
    .hides_when = "no ring",
    .bites_at = [](const Config&) { return std::string("m0/layers.0.attn.core/out"); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.context.owner.replace(
              [](const Where& where, int /*turn*/, int /*promised*/) { return where.cp; });
        },
};

}  // namespace plumb::injectors
