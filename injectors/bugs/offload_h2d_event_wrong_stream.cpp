#include "injectors/bug.hpp"
#include "model/joints/layout.hpp"

namespace plumb::injectors {

extern const Bug offload_h2d_event_wrong_stream{
    .id = "offload-h2d-event-wrong-stream",
    .title = "An updated parameter used before it is back from the host",
    .kind = BugKind::stale_data,
    .story =
        "The optimizer steps on the host. The event that the device waits for is recorded on "
        "the stream that copies to the host, not on the one that copies back: a parameter "
        "misses its update.",
    .seen_in = "Megatron-LM #3140",
    .needs = {.layout = "offload:optimizer,overlap:1"},
    .hides_when = "an optimizer on the device, or a copy back that ends before the others",
    .bites_at = [](const Config&) { return std::string("final_norm.weight/param"); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.overlap.waits.replace([](const Where& where, Wait what, bool) {
            const bool early = where.module == "final_norm.weight";
            return !(what == Wait::parameter_back && early);
          });
        },
};

}  // namespace plumb::injectors
