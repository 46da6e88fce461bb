#include <algorithm>

#include "injectors/bug.hpp"
#include "model/joints/memory.hpp"

namespace plumb::injectors {

extern const Bug sp_gather_swaps_rows_at_border{
    .id = "sp-gather-swaps-rows-at-border",
    .title = "Two tokens at the border of two ranks' slices change places, in one layer",
    .kind = BugKind::sharding,
    .story =
        "Where sequence-parallel slices are put together, the last token of one rank and the first "
        "of the next change places, on the last rank, in the last layer but one. Both tokens are "
        "still there, so that no sum over them shows it.",
    .seen_in = "made up here: slices that are put together with an offset of one",
    .needs = {.layout = "tp2,sp"},
    .hides_when = "no sequence parallelism",
    .bites_at =
        [](const Config& c) {
          return "m0/layers." + std::to_string(std::max(c.layers - 2, 0)) + c.queries() + "/out";
        },
    .plant =
        [](Joints& joints, const Dose&, const Config& c) {
          joints.arrivals.came.replace([layer = std::max(c.layers - 2, 0)](const Where& where,
                                                                           const Arrival& what,
                                                                           std::span<float> x) {
            const bool here = where.tp == where.tp_size - 1 && where.layer == layer;
            const bool forward = !where.backward || where.recomputing;
            if (!here || !forward || what.way != Way::gather || what.axis != "tp") return;
            const std::size_t border = what.rows / static_cast<std::size_t>(where.tp_size);
            const auto first = x.begin() + static_cast<std::ptrdiff_t>(border * what.cols);
            const auto cols = static_cast<std::ptrdiff_t>(what.cols);
            std::swap_ranges(first - cols, first, first);
          });
        },
};

}  // namespace plumb::injectors
