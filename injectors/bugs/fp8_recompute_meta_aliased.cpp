#include <algorithm>
#include <cmath>

#include "injectors/bug.hpp"
#include "model/joints/memory.hpp"
#include "number/rounding.hpp"

namespace plumb::injectors {

extern const Bug fp8_recompute_meta_aliased{
    .id = "fp8-recompute-meta-aliased",
    .title = "What backward computes again is cast by another step's scale",
    .kind = BugKind::stale_data,
    .story =
        "The scales that forward used share their memory with those of the next step. When "
        "backward computes a layer again, its inputs are cast by a scale that is too small, and "
        "small numbers become zero.",
    .seen_in = "TransformerEngine #1723, #1254",
    .needs = {.layout = "recompute", .recipe = "fp8-delayed"},
    .hides_when = "nothing is computed again, or scales that do not change",
    .bites_at = [](const Config& c) { return "m0/layers.0" + c.queries() + "/operand"; },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.tensors.made.replace([](const Where& where, const std::string& id, Tensor& x) {
            if (!where.recomputing || !id.ends_with("/operand")) return;
            float largest = 0;
            for (const float v : x.values) largest = std::max(largest, std::abs(v));
            const float unit = std::exp2(std::floor(std::log2(largest)) + 4);
            for (float& v : x.values) v = round_to(v / unit, e4m3fn) * unit;
          });
        },
};

}  // namespace plumb::injectors
