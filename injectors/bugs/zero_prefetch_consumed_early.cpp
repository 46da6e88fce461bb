#include "injectors/bug.hpp"
#include "model/joints/layout.hpp"

namespace plumb::injectors {

extern const Bug zero_prefetch_consumed_early{
    .id = "zero-prefetch-consumed-early",
    .title = "A layer multiplies by weights that are still being gathered",
    .kind = BugKind::stale_data,
    .story =
        "The next layer's parameters are gathered while this one computes. Without the wait its "
        "first product sees in part what its buffer held before: the layer before the last, or "
        "nothing.",
    .seen_in =
        "made up here: kin of Megatron-LM #6207, #6407, #5222 (a prefetch into the buffer that is "
        "read)",
    .needs = {.layout = "dp2,zero3,overlap:5"},
    .hides_when = "nothing overlaps, parameters that every rank has, or a link faster than a layer",
    .bites_at =
        [](const Config& c) {
          return "m0/layers." + std::to_string(c.layers - 1) + c.queries() + "/out";
        },
    .plant =
        [](Joints& joints, const Dose&, const Config& c) {
          const std::string last =
              "layers." + std::to_string(c.layers - 1) + c.queries() + ".weight";
          joints.overlap.waits.replace([last](const Where& where, Wait what, bool) {
            const bool first = where.micro_batch == 0 && !where.backward;
            return !(what == Wait::parameter && first && where.module == last);
          });
        },
};

}  // namespace plumb::injectors
