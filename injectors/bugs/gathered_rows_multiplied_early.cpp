#include "injectors/bug.hpp"
#include "model/joints/layout.hpp"

namespace plumb::injectors {

extern const Bug gathered_rows_multiplied_early{
    .id = "gathered-rows-multiplied-early",
    .title = "A product takes rows of another rank before they have arrived",
    .kind = BugKind::stale_data,
    .story =
        "Under sequence parallelism rows of other ranks travel while a column-parallel layer "
        "multiplies those that are there. Without the wait it multiplies what an earlier layer left "
        "in the same buffer. The rows come later, so that the weight's gradient is right.",
    .seen_in =
        "made up here: gather and product in one loop, as in TransformerEngine's userbuffers",
    .needs = {.layout = "tp2,sp,overlap:1"},
    .hides_when = "nothing overlaps, or a link faster than the product",
    .bites_at = [](const Config&) { return std::string("m0/layers.1.mlp.fc1/out"); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.overlap.waits.replace([](const Where& where, Wait what, bool) {
            const bool early = where.micro_batch == 0 && where.module == "layers.1.mlp.fc1";
            return !(what == Wait::gathered_rows && early);
          });
        },
};

}  // namespace plumb::injectors
