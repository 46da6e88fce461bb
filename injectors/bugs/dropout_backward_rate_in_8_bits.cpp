#include <cmath>

#include "injectors/bug.hpp"
#include "model/joints/memory.hpp"
#include "number/rounding.hpp"

namespace plumb::injectors {

extern const Bug dropout_backward_rate_in_8_bits{
    .id = "dropout-backward-rate-in-8-bits",
    .title = "Gradients that are not dropped are scaled by a rate of eight bits",
    .kind = BugKind::scaling,
    .story =
        "A fused kernel compares with a byte and makes the factor of what is kept from it: 229/256 "
        "where 0.9 was asked for. It takes over from a rank's second micro-batch on, in backward: "
        "gradients are 0.6 per cent too large there.",
    .seen_in = "made up here: fused attention keeps its probability of dropping in a byte",
    .needs = {.layout = "tp2", .settings = {{"dropout", "0.1"}}},
    .hides_when = "one micro-batch for each rank, or rates that a byte can hold",
    .bites_at =
        [](const Config& c) {
          return "m1/layers." + std::to_string(c.blocks() - 1) + ".mlp.dropout/grad_in";
        },
    .plant =
        [](Joints& joints, const Dose&, const Config& c) {
          const double kept = 1 - fraction(c.dropout), byte = std::floor(kept * 255) / 256;
          joints.tensors.made.replace([factor = static_cast<float>(kept / byte)](
                                          const Where& where, const std::string& id, Tensor& x) {
            if (where.micro_batch < where.dp_size || !id.ends_with(".dropout/grad_in")) return;
            for (float& v : x.values) v = round_to(v * factor, bf16);
          });
        },
};

}  // namespace plumb::injectors
