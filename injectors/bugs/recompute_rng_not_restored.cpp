#include "injectors/bug.hpp"
#include "model/joints/layers.hpp"

namespace plumb::injectors {

extern const Bug recompute_rng_not_restored{
    .id = "recompute-rng-not-restored",
    .title = "What backward computes again drops other elements",
    .kind = BugKind::stale_data,
    .story =
        "The random state that forward had is not put back before a layer is computed again, so "
        "that the mask is another one and gradients belong to another network. Nothing is biased: "
        "a loss curve shows a little noise.",
    .seen_in = "torchtitan #2380, TransformerEngine #1031",
    .needs = {.layout = "recompute", .settings = {{"dropout", "0.1"}}},
    .hides_when = "no dropout; nothing computed again",
    .bites_at = [](const Config&) { return std::string("m0/layers.0.attn.dropout/out"); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.dropout.key.replace([](const Where& where, std::uint64_t key) {
            return where.recomputing ? key + 1 : key;
          });
        },
};

}  // namespace plumb::injectors
