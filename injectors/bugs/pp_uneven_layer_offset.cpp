#include "injectors/bug.hpp"
#include "model/joints/layout.hpp"

namespace plumb::injectors {

extern const Bug pp_uneven_layer_offset{
    .id = "pp-uneven-layer-offset",
    .title = "Stages begin where they would if all had as many layers",
    .kind = BugKind::sharding,
    .story =
        "A stage's first layer was its number times the mean of layers to a stage, though the "
        "first stage has another count. Layers are left out and the model is silently smaller, or "
        "two stages have the same one.",
    .seen_in = "Megatron-LM #3399, #1304, #468",
    .paper = {7, Match::likely},
    .needs = {.layout = "pp2:1+3"},
    .hides_when = "one stage, or stages of as many layers each",
    .bites_at = [](const Config&) { return std::string("layers.1.norm1.weight/param@previous"); },
    .plant =
        [](Joints& joints, const Dose&, const Config& c) {
          joints.pipeline.layers.replace(
              [layers = c.layers](const Where&, int stage, int stages, Stage promised) {
                const int first = stage * (layers / stages);
                const int size = promised.last - promised.first;
                return Stage{first, std::min(first + size, layers)};
              });
        },
};

}  // namespace plumb::injectors
