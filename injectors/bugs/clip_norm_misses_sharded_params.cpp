#include "injectors/bug.hpp"
#include "model/joints/optimizer.hpp"

namespace plumb::injectors {

extern const Bug clip_norm_misses_sharded_params{
    .id = "clip-norm-misses-sharded-params",
    .title = "Slices of a sharded parameter taken for replicas by the norm that clips",
    .kind = BugKind::scaling,
    .story =
        "A parameter lacks the mark that tells its slices from replicas, so the norm of all "
        "gradients counts the first tensor-parallel rank's alone. The norm is too small by little, "
        "and what is clipped by it too large.",
    .seen_in = "Megatron-LM #5916, #6470, #7452, #7530",
    .needs = {.layout = "tp2"},
    .hides_when = "one tensor-parallel rank; nothing is clipped if the norm is small",
    .bites_at = [](const Config&) { return std::string("clip/grad_norm"); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.optimizer.in_norm.replace([](const Where& where, bool promised) {
            return promised && (where.tp == 0 || !where.module.ends_with("attn.proj.weight"));
          });
        },
};

}  // namespace plumb::injectors
