#include "injectors/bug.hpp"
#include "model/joints/gradients.hpp"

namespace plumb::injectors {

extern const Bug latent_norm_grad_not_reduced{
    .id = "latent-norm-grad-not-reduced",
    .title = "The gradient of the latent's norm not summed over sequence-parallel ranks",
    .kind = BugKind::missing_sum,
    .story =
        "The list of weights that sequence parallelism leaves in parts was made of the norms "
        "before attention and MLP. The norm of the latent, within attention, sees a slice of the "
        "tokens as they do, but was not on it.",
    .seen_in = "made up here: kin of PaddleFleet #2008 and of Megatron-LM #1446",
    .needs = {.layout = "tp2,sp", .settings = {{"latent", "16"}}},
    .hides_when = "no sequence parallelism, or no latent",
    .bites_at =
        [](const Config& c) {
          return "m0/layers." + std::to_string(c.blocks() - 1) + ".attn.kv_norm.weight/wgrad";
        },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.gradients.sums_over_sequence.replace([](const Where& where, bool promised) {
            return promised && where.module.find(".kv_norm.") == std::string::npos;
          });
        },
};

}  // namespace plumb::injectors
