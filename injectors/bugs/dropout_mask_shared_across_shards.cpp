#include "injectors/bug.hpp"
#include "model/joints/layers.hpp"

namespace plumb::injectors {

extern const Bug dropout_mask_shared_across_shards{
    .id = "dropout-mask-shared-across-shards",
    .title = "Ranks with other tokens drop the same places of their shards",
    .kind = BugKind::computation,
    .story =
        "Every tensor-parallel rank has the same random state, which is right where they hold the "
        "same tokens. Under sequence parallelism each holds others, and all draw the mask of the "
        "first: still a dropout, but not that of one device, and the same in all shards.",
    .seen_in = "tt-metal #55947, PaddleFleetX #1005, slapo #21, PyTorch #168058",
    .needs = {.layout = "tp2,sp", .settings = {{"dropout", "0.1"}}},
    .hides_when = "no dropout; no sequence parallelism",
    .bites_at = [](const Config&) { return std::string("m0/embedding.dropout/out"); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.dropout.row.replace(
              [](const Where&, std::size_t /*of_whole*/, std::size_t here) { return here; });
        },
};

}  // namespace plumb::injectors
