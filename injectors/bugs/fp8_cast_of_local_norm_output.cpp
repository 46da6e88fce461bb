#include "injectors/bug.hpp"
#include "model/joints/layers.hpp"

namespace plumb::injectors {

extern const Bug fp8_cast_of_local_norm_output{
    .id = "fp8-cast-of-local-norm-output",
    .title = "The norm's output is cast to FP8 and another tensor is multiplied",
    .kind = BugKind::precision,
    .story =
        "Under sequence parallelism the output of a norm is gathered before the product. Where it "
        "is also returned, the local piece was cast and the gathered tensor, not cast, went to the "
        "FP8 product. Cast and consumer disagree on which tensor is short.",
    .seen_in = "TransformerEngine PR 738",
    .paper = {10, Match::guess},
    .needs = {.layout = "tp2,sp", .recipe = "fp8-current"},
    .hides_when = "no sequence parallelism, or recipes without short operands",
    .bites_at = [](const Config& c) { return "m0/layers.0" + c.queries() + "/out"; },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.linear.takes_cast.replace([](const Where&, bool gathered) { return !gathered; });
        },
};

}  // namespace plumb::injectors
