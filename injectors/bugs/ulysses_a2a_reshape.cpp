#include <algorithm>

#include "injectors/bug.hpp"
#include "model/joints/memory.hpp"

namespace plumb::injectors {
namespace {

// Reads x, which lies (tokens, heads, dim), as if it lay (heads, tokens, dim).
void exchange_axes(std::size_t tokens, std::size_t heads, std::size_t dim, std::span<float> x) {
  const std::vector<float> lies(x.begin(), x.end());
  for (std::size_t t = 0; t < tokens; ++t) {
    for (std::size_t h = 0; h < heads; ++h) {
      std::copy_n(lies.begin() + static_cast<std::ptrdiff_t>((h * tokens + t) * dim), dim,
                  x.begin() + static_cast<std::ptrdiff_t>((t * heads + h) * dim));
    }
  }
}

}  // namespace

extern const Bug ulysses_a2a_reshape{
    .id = "ulysses-a2a-reshape",
    .title = "What heads were traded for is reshaped in the wrong order of axes",
    .kind = BugKind::communication,
    .story =
        "After the all-to-all that trades tokens for heads, what each rank sent is read with the "
        "axes of heads and tokens exchanged. Shapes fit, every norm is right, and tokens have "
        "parts of other tokens.",
    .seen_in = "DeepSpeed #5664, #5823",
    .needs = {.layout = "cp2:ulysses"},
    .hides_when = "no such trade, or one head a rank",
    .bites_at = [](const Config&) { return std::string("m0/layers.0.attn.core/out"); },
    .plant =
        [](Joints& joints, const Dose&, const Config& c) {
          const auto dim = static_cast<std::size_t>(c.head_dim());
          joints.arrivals.came.replace(
              [dim](const Where& where, const Arrival& what, std::span<float> x) {
                if (what.way != Way::exchange || what.axis != "cp" || where.backward) return;
                exchange_axes(what.rows, what.cols / dim, dim, x);
              });
        },
};

}  // namespace plumb::injectors
