#include "injectors/bug.hpp"
#include "model/joints/optimizer.hpp"

namespace plumb::injectors {

extern const Bug idle_layer_steps_on_momentum{
    .id = "idle-layer-steps-on-momentum",
    .title = "Parameters of a layer that a step goes past are moved by their momentum",
    .kind = BugKind::stale_data,
    .story =
        "A layer without a gradient has none on one device, and its optimizer leaves it alone. "
        "Gradient buffers have a place for it all the same, filled with zeros: its averages decay "
        "and it goes on where it went.",
    .seen_in = "made up here: what gradient buffers do to parameters that nobody used",
    .in_the_next_step = true,
    .needs = {.layout = "dp2", .settings = {{"idle_layers", "1"}}},
    .hides_when = "the first step, in which no parameter has momentum",
    .bites_at = nullptr,  // of the layer that the step goes past
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.optimizer.rests.replace([](const Where&) { return false; });
        },
};

}  // namespace plumb::injectors
