#include "injectors/bug.hpp"
#include "model/joints/memory.hpp"
#include "number/rounding.hpp"

namespace plumb::injectors {

extern const Bug stage_messages_in_compute_format{
    .id = "stage-messages-in-compute-format",
    .title = "Stages send an FP32 residual stream in BF16",
    .kind = BugKind::precision,
    .story =
        "The residual stream is kept in FP32, and messages between stages are made in the format of "
        "parameters, as they were before. Every stage but the first goes on from a stream that has "
        "been rounded once more.",
    .seen_in = "made up here: a pipeline whose messages have the parameters' format, as a setting",
    .needs = {.layout = "pp2", .recipe = "bf16-stream32"},
    .hides_when = "one stage; a stream in the format of activations",
    .bites_at = nullptr,  // in the first layer of the second stage
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.arrivals.came.replace([](const Where&, const Arrival& what, std::span<float> x) {
            if (what.way == Way::message && what.axis == "pp") round_in_place(x, bf16);
          });
        },
};

}  // namespace plumb::injectors
