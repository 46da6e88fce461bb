#include "injectors/bug.hpp"
#include "model/joints/layers.hpp"

namespace plumb::injectors {

extern const Bug fp8_weight_cache_wrong_scale{
    .id = "fp8-weight-cache-wrong-scale",
    .title = "Later micro-batches multiply a cached FP8 weight by a new scale",
    .kind = BugKind::stale_data,
    .story =
        "The cast of a weight is kept for all micro-batches of a step, and the scale that brings "
        "its products back is not kept with it: the next scale, here of twice the range, is taken "
        "from the second micro-batch on.",
    .seen_in = "TransformerEngine #1047, #2119",
    .needs = {.layout = "tp2", .recipe = "fp8-delayed", .micro_batches = 2},
    .hides_when = "one micro-batch, or scales that do not change",
    .bites_at = [](const Config& c) { return "m1/layers.0" + c.queries() + "/out"; },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.linear.after_product.replace(
              [](const Where& where, const View<float>&, const View<float>&, Tensor& y) {
                if (where.micro_batch < where.dp_size) return;
                for (float& product : y.values) product *= 2;
              });
        },
};

}  // namespace plumb::injectors
