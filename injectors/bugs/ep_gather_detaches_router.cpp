#include "injectors/bug.hpp"
#include "model/joints/experts.hpp"

namespace plumb::injectors {

extern const Bug ep_gather_detaches_router{
    .id = "ep-gather-detaches-router",
    .title = "Scores of experts on other ranks get no gradient",
    .kind = BugKind::missing_sum,
    .story =
        "What comes back from the experts of other ranks passes through a gather that "
        "gradients do not flow through. Forward and loss are right; the router learns from "
        "the experts of its own rank alone.",
    .seen_in = "NeMo-Automodel #2995, #1260; transformers #48205, #48687",
    .needs = {.layout = "dp2,ep2", .experts = true},
    .hides_when = "no expert parallelism",
    .bites_at =
        [](const Config& config) {
          return "m0/layers." + std::to_string(config.layers - 1) +
                 ".mlp.router/probabilities_grad";
        },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.experts.weighs.replace([](const Where& where, int, int rank_of_expert) {
            return rank_of_expert == where.ep;
          });
        },
};

}  // namespace plumb::injectors
