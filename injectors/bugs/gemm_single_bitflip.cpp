#include <bit>

#include "injectors/bug.hpp"
#include "model/joints/layers.hpp"

namespace plumb::injectors {

extern const Bug gemm_single_bitflip{
    .id = "gemm-single-bitflip",
    .title = "One bit of one result of a product is flipped",
    .kind = BugKind::hardware,
    .story =
        "A unit that multiplies gives one wrong bit, once. In the exponent the number is off by a "
        "power of two; low in the mantissa it is rounding.",
    .seen_in = "arXiv 2604.00726, 2605.04213, 2502.12340",
    .needs = {.layout = "tp2"},
    .hides_when = "bits below the last that the format keeps",
    .dose = "bit (24)",
    .largest_dose = 31,
    .bites_at = [](const Config&) { return std::string("m0/layers.1.mlp.fc1/out"); },
    .plant =
        [](Joints& joints, const Dose& dose, const Config&) {
          const int bit = dose.magnitude > 0 ? static_cast<int>(dose.magnitude) : 24;
          joints.linear.after_product.replace(
              [bit](const Where& where, const View<float>&, const View<float>&, Tensor& y) {
                const bool here = where.tp == 0 && where.micro_batch == 0 && !where.recomputing;
                if (!here || where.module != "layers.1.mlp.fc1") return;
                float& hit = y.values[y.size() / 3];
                hit = std::bit_cast<float>(std::bit_cast<std::uint32_t>(hit) ^ (1U << (bit % 32)));
              });
        },
};

}  // namespace plumb::injectors
