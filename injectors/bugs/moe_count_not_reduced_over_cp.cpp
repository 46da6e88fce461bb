#include "injectors/bug.hpp"
#include "model/joints/experts.hpp"

namespace plumb::injectors {

extern const Bug moe_count_not_reduced_over_cp{
    .id = "moe-count-not-reduced-over-cp",
    .title = "Copies per expert are counted over each context's tokens only",
    .kind = BugKind::missing_sum,
    .story =
        "The loss that balances the experts multiplies how many copies each expert takes with "
        "its mean probability. Each context-parallel rank counts its own tokens of every "
        "sequence; without the sum each router learns to balance these.",
    .seen_in = "made up here: the context-parallel side of torchtitan #4154",
    .needs = {.layout = "cp2", .experts = true},
    .hides_when = "no context parallelism, or no balance loss",
    .bites_at = [](const Config&) { return std::string("m0/layers.0.mlp.router/count"); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.router.counts_over.replace(
              [](const Where&, std::string_view axis) { return axis != "cp"; });
        },
};

}  // namespace plumb::injectors
