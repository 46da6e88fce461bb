#include "injectors/bug.hpp"
#include "model/joints/experts.hpp"

namespace plumb::injectors {

extern const Bug capacity_of_local_tokens{
    .id = "capacity-of-local-tokens",
    .title = "Each sequence-parallel rank fills its share of an expert's capacity by itself",
    .kind = BugKind::computation,
    .story =
        "A rank sees some of the tokens, and drops what is more than its share of an expert's "
        "capacity. As many copies stay as should, or fewer, but others: who is dropped depends on "
        "the number of ranks.",
    .seen_in = "made up here: how frameworks count that take capacity for a matter of each rank",
    .needs = {.layout = "tp2,sp", .experts = true, .settings = {{"capacity", "1.0"}}},
    .hides_when = "no capacity; no sequence parallelism",
    .bites_at = [](const Config&) { return std::string("m0/layers.0.mlp.router/kept"); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.router.fills_from_all_tokens.replace([](const Where&) { return false; });
        },
};

}  // namespace plumb::injectors
