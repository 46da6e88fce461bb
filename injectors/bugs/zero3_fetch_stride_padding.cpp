#include "injectors/bug.hpp"
#include "model/joints/layout.hpp"

namespace plumb::injectors {

extern const Bug zero3_fetch_stride_padding{
    .id = "zero3-fetch-stride-padding",
    .title = "Shares of a parameter are read from where they would begin without padding",
    .kind = BugKind::sharding,
    .story =
        "Ranks send shares that are padded to one length, and the reader walks through them by "
        "the lengths without padding. What was padding is read as elements.",
    .seen_in = "DeepSpeed #8158",
    .needs = {.layout = "dp2,zero3,padded", .settings = {{"latent", "33"}}},
    .hides_when = "sizes that the number of ranks divides",
    .bites_at =
        [](const Config& c) {
          return "m0/layers.0.attn." +
                 std::string(c.family == Family::gpt ? "kv_down" : "kv_norm") + "/out";
        },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.padding.begins.replace(
              [](const Where&, std::size_t packed, std::size_t) { return packed; });
        },
};

}  // namespace plumb::injectors
