#include <algorithm>
#include <cmath>

#include "injectors/bug.hpp"
#include "model/joints/memory.hpp"

namespace plumb::injectors {
namespace {

void saturate_at(double share, std::span<float> x) {
  float largest = 0;
  for (const float v : x) largest = std::max(largest, std::abs(v));
  const auto limit = static_cast<float>(share * largest);
  for (float& v : x) v = std::clamp(v, -limit, limit);
}

}  // namespace

extern const Bug tp_sum_range_too_small{
    .id = "tp-sum-range-too-small",
    .title = "The largest numbers of the last layer's sums over ranks are cut off",
    .kind = BugKind::precision,
    .story =
        "Row-parallel sums travel as whole numbers of a fixed range, which was measured where "
        "activations are smaller. In the last layer the few largest saturate, on all ranks alike.",
    .seen_in = "made up here: a compressed sum whose range is measured once",
    .needs = {.layout = "tp2"},
    .hides_when = "activations within the range",
    .dose = "share (0.97)",
    .bites_at =
        [](const Config& c) {
          return "m0/layers." + std::to_string(c.layers - 1) + ".attn.proj/out";
        },
    .plant =
        [](Joints& joints, const Dose& dose, const Config& c) {
          const double share = dose.magnitude > 0 ? dose.magnitude : 0.97;
          joints.arrivals.came.replace([share, last = c.layers - 1](const Where& where,
                                                                    const Arrival& what,
                                                                    std::span<float> x) {
            const bool sum = what.way == Way::sum && what.axis == "tp";
            const bool forward = !where.backward || where.recomputing;
            if (sum && forward && where.layer == last) saturate_at(share, x);
          });
        },
};

}  // namespace plumb::injectors
