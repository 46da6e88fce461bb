#include "injectors/bug.hpp"
#include "model/joints/layout.hpp"

namespace plumb::injectors {

extern const Bug recompute_chunk_input_reused{
    .id = "recompute-chunk-input-reused",
    .title = "Every layer of a recomputed chunk takes the chunk's input",
    .kind = BugKind::computation,
    .story =
        "The function that backward calls again loops over the layers of a chunk, but hands each "
        "of them what the first one took in; only the last layer of a chunk takes part.",
    .seen_in = "Megatron-LM MR !551, ported 2023",
    .paper = {2, Match::likely},
    .needs = {.layout = "recompute:uniform2"},
    .hides_when = "chunks of one layer",
    .bites_at = [](const Config&) { return std::string("m0/layers.1.norm1/out"); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.recompute.takes_in.replace(
              [](const Where&, const Tensor& of_chunk, Tensor) { return of_chunk; });
        },
};

}  // namespace plumb::injectors
