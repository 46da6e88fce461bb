#include "injectors/bug.hpp"
#include "model/joints/layers.hpp"

namespace plumb::injectors {

extern const Bug allreduce_result_dropped_noncontiguous{
    .id = "allreduce-result-dropped-noncontiguous",
    .title = "The sum of an input gradient is written to a copy and lost",
    .kind = BugKind::missing_sum,
    .story =
        "The gradient of a layer's input is not contiguous, so that a copy of it is summed over "
        "the ranks, and what goes on is the tensor that was copied. Each rank has the part of its "
        "own columns.",
    .seen_in = "Megatron-LM #5338",
    .needs = {.layout = "tp2"},
    .hides_when = "one tensor-parallel rank, or gradients that are contiguous",
    .bites_at =
        [](const Config& c) {
          return "m0/layers." + std::to_string(c.blocks() - 1) + c.queries() + "/grad_in";
        },
    .plant =
        [](Joints& joints, const Dose&, const Config& c) {
          joints.linear.sums_input_gradient.replace(
              [name = c.queries()](const Where& where) { return !where.module.ends_with(name); });
        },
};

}  // namespace plumb::injectors
