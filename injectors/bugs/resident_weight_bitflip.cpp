#include <bit>

#include "injectors/bug.hpp"
#include "model/joints/memory.hpp"

namespace plumb::injectors {

extern const Bug resident_weight_bitflip{
    .id = "resident-weight-bitflip",
    .title = "One bit of a weight flips on one replica, and stays",
    .kind = BugKind::hardware,
    .story =
        "Memory loses a bit between two steps. One of the data-parallel copies computes with "
        "another weight from then on, and the sum of gradients hides whose it was.",
    .seen_in = "arXiv 2604.00726",
    .needs = {.layout = "dp2"},
    .hides_when = "one copy: then nothing disagrees with it",
    .dose = "bit (23)",
    .largest_dose = 31,
    .bites_at = [](const Config&) { return std::string("layers.1.mlp.fc1.weight/param@previous"); },
    .plant =
        [](Joints& joints, const Dose& dose, const Config&) {
          const int bit = dose.magnitude > 0 ? static_cast<int>(dose.magnitude) : 23;
          joints.state.loads.replace([bit](const Where& where, const std::string& id,
                                           std::shared_ptr<const Tensor> whole) {
            const bool here = where.dp == 1 && id == "layers.1.mlp.fc1.weight/param@previous";
            if (!here) return whole;
            auto flipped = std::make_shared<Tensor>(*whole);
            float& hit = flipped->values[whole->size() / 3];
            hit = std::bit_cast<float>(std::bit_cast<std::uint32_t>(hit) ^ (1U << (bit % 32)));
            return std::shared_ptr<const Tensor>(std::move(flipped));
          });
        },
};

}  // namespace plumb::injectors
