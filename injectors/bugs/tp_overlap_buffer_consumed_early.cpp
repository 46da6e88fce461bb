#include "injectors/bug.hpp"
#include "model/joints/layout.hpp"

namespace plumb::injectors {

extern const Bug tp_overlap_buffer_consumed_early{
    .id = "tp-overlap-buffer-consumed-early",
    .title = "An input gradient is used before its sum over tensor-parallel ranks has arrived",
    .kind = BugKind::stale_data,
    .story =
        "The gradient of a layer's input travels between tensor-parallel ranks while the gradient "
        "of its weight is multiplied. Without the wait what lies below takes rows that are this "
        "rank's part alone. The weight gradient of that layer is right; those below are not.",
    .seen_in = "TransformerEngine #1616, #1620, #1088",
    .paper = {11, Match::guess},
    .needs = {.layout = "tp2,overlap:1"},
    .hides_when = "nothing overlaps, one tensor-parallel rank, or a link faster than the product",
    .bites_at =
        [](const Config& c) {
          return "m0/layers." + std::to_string(c.layers - 1) + ".mlp.fc1/grad_in";
        },
    .plant =
        [](Joints& joints, const Dose&, const Config& c) {
          const std::string last = "layers." + std::to_string(c.layers - 1) + ".mlp.fc1";
          joints.overlap.waits.replace([last](const Where& where, Wait what, bool) {
            const bool first = where.micro_batch == 0;
            return !(what == Wait::input_gradient && first && where.module == last);
          });
        },
};

}  // namespace plumb::injectors
