#include "injectors/bug.hpp"
#include "model/joints/gradients.hpp"

namespace plumb::injectors {

extern const Bug sp_norm_grad_not_reduced{
    .id = "sp-norm-grad-not-reduced",
    .title = "Norm gradients not summed over sequence-parallel ranks",
    .kind = BugKind::missing_sum,
    .story =
        "Each rank sees its slice of the tokens, so a norm's weight gradient is a partial sum; "
        "a lost attribute made the reduction skip the norms and the replicas drifted apart.",
    .seen_in = "Megatron-LM #1446, fixed by TransformerEngine PR 1528",
    .paper = {12},
    .needs = {.layout = "tp2,sp"},
    .hides_when = "no sequence parallelism",
    .bites_at = [](const Config&) { return std::string("m0/final_norm.weight/wgrad"); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.gradients.sums_over_sequence.replace([](const Where& where, bool promised) {
            return promised && where.module.find("norm") == std::string::npos;
          });
        },
};

}  // namespace plumb::injectors
