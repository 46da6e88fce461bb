#include "injectors/bug.hpp"
#include "model/joints/layout.hpp"

namespace plumb::injectors {

extern const Bug offload_copy_back_not_awaited{
    .id = "offload-copy-back-not-awaited",
    .title = "Backward reads an offloaded activation that is not back yet",
    .kind = BugKind::stale_data,
    .story =
        "What a layer took in waits on the host and is copied back while the layer after it "
        "goes backward. Without the wait the norm's backward sees in part what that buffer held "
        "before.",
    .seen_in = "made up here: kin of offload-h2d-event-wrong-stream",
    .needs = {.layout = "offload:activations,overlap:1"},
    .hides_when = "nothing offloaded, or a copy faster than a layer's backward",
    .bites_at = [](const Config&) { return std::string("m0/layers.0.norm1/grad_in"); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.overlap.waits.replace([](const Where& where, Wait what, bool) {
            const bool first = where.micro_batch == 0 && where.module == "layers.0";
            return !(what == Wait::brought_back && first);
          });
        },
};

}  // namespace plumb::injectors
