#include "injectors/bug.hpp"
#include "model/joints/layers.hpp"

namespace plumb::injectors {

extern const Bug latent_grad_not_reduced{
    .id = "latent-grad-not-reduced",
    .title = "The gradient of the latent of keys and values stays each rank's own",
    .kind = BugKind::missing_sum,
    .story =
        "Every rank has the latent whole and makes the keys and values of its heads from it, so "
        "its gradient is a sum over the ranks. The product before it is not sliced, and nobody "
        "took it for the place where a sum begins: norm and down-projection get one rank's share, "
        "and their copies drift apart.",
    .seen_in = "made up here: kin of PaddleFleet #2008 (down-projections of latent attention)",
    .needs = {.layout = "tp2", .settings = {{"latent", "16"}}},
    .hides_when = "tp1, or no latent",
    .bites_at =
        [](const Config& c) {
          return "m0/layers." + std::to_string(c.blocks() - 1) + ".attn.kv_up/grad_in";
        },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.linear.sums_input_gradient.replace(
              [](const Where& where) { return !where.module.ends_with(".kv_up"); });
        },
};

}  // namespace plumb::injectors
