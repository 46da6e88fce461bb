#include "injectors/bug.hpp"
#include "model/joints/experts.hpp"

namespace plumb::injectors {

extern const Bug moe_count_not_reduced_over_tp{
    .id = "moe-count-not-reduced-over-tp",
    .title = "Copies per expert are counted over each rank's tokens only",
    .kind = BugKind::missing_sum,
    .story =
        "The loss that balances the experts multiplies how many copies each expert takes with "
        "its mean probability. Under sequence parallelism each rank counts its own tokens; "
        "without the sum each router learns to balance half of them.",
    .seen_in = "torchtitan #4154, there of the counts that steer a bias",
    .needs = {.layout = "tp2,sp", .experts = true},
    .hides_when = "no sequence parallelism, or no balance loss",
    .bites_at = [](const Config&) { return std::string("m0/layers.0.mlp.router/count"); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.router.counts_over.replace(
              [](const Where&, std::string_view axis) { return axis != "tp"; });
        },
};

}  // namespace plumb::injectors
