#include "injectors/bug.hpp"
#include "model/joints/optimizer.hpp"

namespace plumb::injectors {

extern const Bug clip_coefficient_max_not_min{
    .id = "clip-coefficient-max-not-min",
    .title = "Clip coefficient limited with max where min is meant",
    .kind = BugKind::computation,
    .story =
        "Large gradients are never shrunk and small ones are blown up to the clipping norm; the "
        "gradients before clipping are right.",
    .seen_in = "DeepSpeed #5150",
    .needs = {.layout = "dp2"},
    .hides_when = "a gradient norm equal to the threshold",
    .bites_at = [](const Config&) { return std::string("clip/coefficient"); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.optimizer.clip_coefficient.replace([](const Where&, float norm, float limit) {
            return std::max(1.0F, limit / (norm + 1e-6F));
          });
        },
};

}  // namespace plumb::injectors
