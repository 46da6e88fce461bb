#include "injectors/bug.hpp"
#include "model/joints/layout.hpp"

namespace plumb::injectors {

extern const Bug lse_update_off_stream{
    .id = "lse-update-off-stream",
    .title = "A turn of the ring adds to sums of its softmax that are not there yet",
    .kind = BugKind::stale_data,
    .story =
        "Merging what one turn has found with what came before is launched on another stream than "
        "attention, and reads sums of exponentials before they are written. Here every fourth "
        "query of the second turn finds half of them.",
    .seen_in = "TransformerEngine #1624",
    .needs = {.layout = "cp2:ring"},
    .hides_when = "no ring, or one stream",
    .bites_at = [](const Config&) { return std::string("m0/layers.0.attn.core/out"); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.context.sums_so_far.replace([](const Where&, int turn, std::span<float> sums) {
            for (std::size_t i = 0; turn == 1 && i < sums.size(); i += 4) sums[i] /= 2;
          });
        },
};

}  // namespace plumb::injectors
