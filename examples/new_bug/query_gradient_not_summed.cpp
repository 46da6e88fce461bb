#include "injectors/bug.hpp"
#include "model/joints/layers.hpp"

using namespace plumb::injectors;

extern const Bug query_gradient_not_summed{
    .id = "query-gradient-not-summed",
    .title = "Input gradient of one attention not summed over tensor-parallel ranks",
    .kind = BugKind::missing_sum,
    .story =
        "Each rank has the queries and keys of its heads, so the gradient of what they are made of "
        "is a partial sum. In the second layer each rank goes on with its own part.",
    .seen_in = "made up here: one joint, for one module",
    .needs = {.layout = "tp2"},
    .hides_when = "one tensor-parallel rank",
    .bites_at = [](const Config&) { return std::string("m0/layers.1.attn.qkv/grad_in"); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.linear.sums_input_gradient.replace(
              [](const Where& where) { return where.module != "layers.1.attn.qkv"; });
        },
};
