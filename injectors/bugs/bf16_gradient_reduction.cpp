#include "injectors/bug.hpp"
#include "model/joints/gradients.hpp"

namespace plumb::injectors {

extern const Bug bf16_gradient_reduction{
    .id = "bf16-gradient-reduction",
    .title = "Gradients travel in BF16 where FP32 was promised",
    .kind = BugKind::precision,
    .story =
        "Each running sum over the data-parallel ranks is rounded to BF16. With two ranks it "
        "looks like rounding; it grows with their number.",
    .seen_in = "PyTorch #106395; Megatron-LM #6199, #502; TransformerEngine #3555",
    .needs = {.layout = "dp2"},
    .hides_when = "one data-parallel rank",
    .bites_at = first_main_grad,
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.gradients.wire.replace([](const Where&, const Format&) { return bf16; });
        },
};

}  // namespace plumb::injectors
