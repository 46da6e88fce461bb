#include "injectors/bug.hpp"
#include "model/joints/gradients.hpp"

namespace plumb::injectors {

extern const Bug label_smoothing_local_vocab{
    .id = "label-smoothing-local-vocab",
    .title = "Labels are smoothed over a rank's slice of the vocabulary",
    .kind = BugKind::computation,
    .story =
        "The mean over the vocabulary that smoothing takes is that of the rank's own slice, and "
        "is divided by that slice's width: each tensor-parallel rank has another loss, and "
        "gradients of other sizes.",
    .seen_in = "Megatron-LM #737, #7464, #5522, #7452",
    .needs = {.layout = "tp2", .settings = {{"label_smoothing", "0.1"}}},
    .hides_when = "no label smoothing",
    .bites_at = [](const Config&) { return std::string("m0/loss/out"); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.loss.smooths_over_slices.replace([](const Where&) { return false; });
        },
};

}  // namespace plumb::injectors
