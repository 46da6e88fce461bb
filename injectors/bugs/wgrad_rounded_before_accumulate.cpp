#include "injectors/bug.hpp"
#include "model/joints/gradients.hpp"
#include "number/rounding.hpp"

namespace plumb::injectors {

extern const Bug wgrad_rounded_before_accumulate{
    .id = "wgrad-rounded-before-accumulate",
    .title = "A weight's gradient is stored in BF16 before it is added in FP32",
    .kind = BugKind::precision,
    .story =
        "The product is written in the format of activations and then added to a buffer of FP32: "
        "the buffer has the bits, and what goes into it has not.",
    .seen_in = "TransformerEngine #1618; Megatron-LM #6624; miles #1721",
    .needs = {.layout = "tp2"},
    .hides_when = "recipes whose gradients are in BF16",
    .bites_at = first_main_grad,
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.gradients.part.replace([](const Where&, Tensor& part) {
            for (float& v : part.values) v = round_to(v, bf16);
          });
        },
};

}  // namespace plumb::injectors
