#include "injectors/bug.hpp"
#include "model/joints/memory.hpp"

namespace plumb::injectors {

extern const Bug cp_peers_different_sample{
    .id = "cp-peers-different-sample",
    .title = "Ranks that share a sequence read different ones",
    .kind = BugKind::sharding,
    .story =
        "The index of a sample is made from the rank's number among all, not among those that "
        "have other data. Contexts see parts of unrelated sequences.",
    .seen_in = "Megatron-Bridge #4785; StackOverflow 67180955",
    .needs = {.layout = "cp2"},
    .hides_when = "one context",
    .bites_at = [](const Config&) { return std::string("m0/data/ids"); },
    .plant =
        [](Joints& joints, const Dose&, const Config& c) {
          joints.data.sample.replace([n = c.micro_batches](const Where& where, int promised) {
            return (promised + where.cp) % n;
          });
        },
};

}  // namespace plumb::injectors
