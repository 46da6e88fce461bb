#include "injectors/bug.hpp"
#include "model/joints/layers.hpp"

namespace plumb::injectors {

extern const Bug bias_before_row_parallel_reduce{
    .id = "bias-before-row-parallel-reduce",
    .title = "Bias added on every rank before the row-parallel sum",
    .kind = BugKind::computation,
    .story =
        "Each rank adds the replicated bias to its part, so that the sum holds it tp times. With "
        "biases that start at zero nothing shows until they have learnt something.",
    .seen_in = "torchtitan #4245",
    .needs = {.families = {Family::gpt}, .layout = "tp2"},
    .hides_when = "tp1, or biases that are zero",
    .bites_at = [](const Config&) { return std::string("m0/layers.0.attn.proj/out"); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.row_parallel.bias_before_sum.replace([](const Where&) { return true; });
        },
};

}  // namespace plumb::injectors
