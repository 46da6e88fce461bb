#include "injectors/bug.hpp"
#include "model/joints/layers.hpp"

namespace plumb::injectors {

extern const Bug wire_rounded_twice{
    .id = "wire-rounded-twice",
    .title = "One row-parallel sum travels in BF16 where FP32 was promised",
    .kind = BugKind::precision,
    .story =
        "The parts of one layer's output projection are cast to BF16 before the sum and the sum is "
        "cast again. The error looks like rounding; only the promise says that it is not. A "
        "checker that took its tolerance from what ran would excuse it.",
    .seen_in = "made up here, after the precision-recipe class of the catalogue",
    .needs = {.layout = "tp2", .recipe = "bf16-wire32"},
    .hides_when = "tp1, or a recipe that promises a BF16 wire",
    .bites_at = [](const Config&) { return std::string("m0/layers.1.attn.proj/out"); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.row_parallel.wire.replace([](const Where& where, Format promised) {
            return where.module == "layers.1.attn.proj" ? bf16 : promised;
          });
        },
};

}  // namespace plumb::injectors
