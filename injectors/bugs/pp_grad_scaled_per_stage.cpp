#include "injectors/bug.hpp"
#include "model/joints/memory.hpp"

namespace plumb::injectors {

extern const Bug pp_grad_scaled_per_stage{
    .id = "pp-grad-scaled-per-stage",
    .title = "Every stage divides the gradient that it receives by the micro-batches",
    .kind = BugKind::scaling,
    .story =
        "The division by the number of micro-batches belongs to the loss alone, and is done again "
        "wherever a stage receives a gradient. Layers of earlier stages learn more slowly, unless "
        "the optimizer forgives a factor.",
    .seen_in = "DeepSpeed #8154",
    .needs = {.layout = "pp2", .micro_batches = 2},
    .hides_when = "one stage, or one micro-batch",
    .bites_at =
        [](const Config& c) {
          return "m0/layers." + std::to_string((c.layers + 1) / 2 - 1) + ".mlp.fc2/grad_in";
        },
    .plant =
        [](Joints& joints, const Dose&, const Config& c) {
          joints.arrivals.came.replace(
              [n = static_cast<float>(c.micro_batches)](const Where& where, const Arrival& what,
                                                        std::span<float> x) {
                if (what.way != Way::message || what.axis != "pp" || !where.backward) return;
                for (float& gradient : x) gradient /= n;
              });
        },
};

}  // namespace plumb::injectors
