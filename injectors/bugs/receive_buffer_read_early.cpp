#include "injectors/bug.hpp"
#include "model/joints/layout.hpp"

namespace plumb::injectors {

extern const Bug receive_buffer_read_early{
    .id = "receive-buffer-read-early",
    .title = "A stage starts on a receive buffer that still holds the last micro-batch",
    .kind = BugKind::stale_data,
    .story =
        "One buffer receives all that a stage takes in. Without the wait the stage computes "
        "with rows of the micro-batch before, where the new ones have not arrived.",
    .seen_in = "made up here: the receiver's side of Megatron-LM #4047",
    .needs = {.layout = "pp2,overlap:5", .micro_batches = 2},
    .hides_when = "one stage, one micro-batch, or transfers that end at once",
    .bites_at =
        [](const Config& c) {
          return "m1/layers." + std::to_string((c.layers + 1) / 2) + ".norm1/out";
        },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.overlap.waits.replace([](const Where& where, Wait what, bool) {
            const bool second = where.pp == 1 && where.micro_batch == 1;
            return !(what == Wait::received && where.module == "stage" && !where.backward &&
                     second);
          });
        },
};

}  // namespace plumb::injectors
