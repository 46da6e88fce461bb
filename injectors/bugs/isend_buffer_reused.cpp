#include "injectors/bug.hpp"
#include "model/joints/layout.hpp"

namespace plumb::injectors {

extern const Bug isend_buffer_reused{
    .id = "isend-buffer-reused",
    .title = "A stage's output overwritten before it has left",
    .kind = BugKind::stale_data,
    .story =
        "A stage sends what it made without waiting and puts the next micro-batch's output "
        "where that was. The stage after it gets rows of two micro-batches.",
    .seen_in = "Megatron-LM #4047",
    .needs = {.layout = "pp2,overlap:5", .micro_batches = 2},
    .hides_when = "one stage, one micro-batch, or sends that end at once",
    .bites_at =
        [](const Config& c) {
          return "m0/layers." + std::to_string((c.layers + 1) / 2) + ".norm1/out";
        },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.overlap.waits.replace([](const Where& where, Wait what, bool) {
            const bool second = where.pp == 0 && where.micro_batch == where.dp_size;
            return !(what == Wait::sent && where.module == "stage" && !where.backward && second);
          });
        },
};

}  // namespace plumb::injectors
