#include <algorithm>

#include "injectors/bug.hpp"
#include "model/joints/memory.hpp"

namespace plumb::injectors {
namespace {

std::string garbage_at(const Config& c) {
  return "m0/layers." + std::to_string(c.blocks() - 1) + ".mlp.experts.fc1/grad_in";
}

}  // namespace

extern const Bug gemm_tile_garbage{
    .id = "gemm-tile-garbage",
    .title = "A tile of one expert's product holds other numbers",
    .kind = BugKind::hardware,
    .story =
        "One result of a grouped product has a run of consecutive values that are wrong by orders "
        "of magnitude, in the first expert. Computed again, it is right. Race or hardware was "
        "never settled.",
    .seen_in = "Megatron-LM #7400",
    .needs = {.layout = "dp2,ep2", .experts = true},
    .hides_when = "never by itself: it came at step 77",
    .dose = "values (64)",
    .largest_dose = 1e6,
    .bites_at =
        [](const Config& c) {
          return "m0/layers." + std::to_string(c.blocks() - 1) + ".mlp.experts.fc1/grad_in";
        },
    .plant =
        [](Joints& joints, const Dose& dose, const Config& c) {
          const double size = dose.magnitude > 0 ? dose.magnitude : 64;
          const std::string hit = garbage_at(c);
          joints.tensors.made.replace(
              [size, hit](const Where& where, const std::string& id, Tensor& x) {
                if (id != hit || where.ep != 0 || where.tp != 0) return;
                const std::size_t n = std::min(static_cast<std::size_t>(size), x.size());
                for (std::size_t i = 0; i < n; ++i) x.values[i] = i % 2 == 0 ? 1.0F : -1.0F;
              });
        },
};

}  // namespace plumb::injectors
