#include "injectors/bug.hpp"
#include "model/joints/layers.hpp"

namespace plumb::injectors {

extern const Bug fp8_layers_by_number_in_stage{
    .id = "fp8-layers-by-number-in-stage",
    .title = "The layers that are kept out of FP8 are counted from the start of each stage",
    .kind = BugKind::precision,
    .story =
        "A recipe keeps the first and the last layers in BF16, where FP8 costs most. Each stage of a "
        "pipeline asked by its own number of a layer: the first layer of every stage was kept out, and "
        "the last layer of the model was not. Shapes are right and the loss falls.",
    .seen_in = "Megatron-LM merge request 3054",
    .needs = {.layout = "pp2:1+3", .recipe = "fp8-current-ends"},
    .hides_when = "one stage, or recipes that treat all layers alike",
    .bites_at = [](const Config&) { return std::string("layers.1.attn.qkv.weight/operand_scale"); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.linear.layer.replace([](const Where&, int in_stage, int) { return in_stage; });
        },
};

}  // namespace plumb::injectors
