#include "injectors/bug.hpp"
#include "model/joints/gradients.hpp"

namespace plumb::injectors {

extern const Bug gradients_zeroed_between_runs{
    .id = "gradients-zeroed-between-runs",
    .title = "Each run of the schedule begins with gradients of zero",
    .kind = BugKind::stale_data,
    .story =
        "A step goes through the schedule of forward and backward several times, and the function "
        "that runs it clears the gradients first, as it should where it runs once. The step is "
        "that of the last run's micro-batches alone.",
    .seen_in = "made up here: accumulation outside of a schedule that clears",
    .needs = {.layout = "runs2"},
    .hides_when = "one run a step",
    .bites_at = [](const Config& c) { return first_main_grad(c); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.gradients.kept_between_runs.replace([](const Where&, int) { return false; });
        },
};

}  // namespace plumb::injectors
