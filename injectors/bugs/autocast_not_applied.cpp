#include "injectors/bug.hpp"
#include "model/joints/memory.hpp"

namespace plumb::injectors {

extern const Bug autocast_not_applied{
    .id = "autocast-not-applied",
    .title = "Layers compute in FP32 where BF16 was asked for",
    .kind = BugKind::precision,
    .story =
        "Nothing casts what layers make. Results are better than promised, so that no tolerance "
        "will object; what is recorded as BF16 holds numbers that BF16 does not have.",
    .seen_in = "lightning-thunder #725",
    .needs = {.layout = "tp2"},
    .hides_when = "recipes that compute in FP32",
    .bites_at = [](const Config&) { return std::string("m0/embedding/out"); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.tensors.format.replace([](const Where& where, Format promised) {
            return where.micro_batch >= 0 ? fp32 : promised;
          });
        },
};

}  // namespace plumb::injectors
