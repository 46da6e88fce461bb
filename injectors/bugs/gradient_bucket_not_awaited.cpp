#include "injectors/bug.hpp"
#include "model/joints/layout.hpp"

namespace plumb::injectors {

extern const Bug gradient_bucket_not_awaited{
    .id = "gradient-bucket-not-awaited",
    .title = "A gradient read before its bucket is summed",
    .kind = BugKind::stale_data,
    .story =
        "Buckets of gradients are summed while backward goes on, and the optimizer does not "
        "wait for the one with the embedding, which set out last. What has not landed yet is "
        "this rank's own part of the sum.",
    .seen_in = "made up here: the reader's side of Megatron-LM #3693 and DeepSpeed #7898",
    .needs = {.layout = "dp2,overlap:1"},
    .hides_when = "nothing overlaps, one data-parallel rank, or sums that land at once",
    .bites_at =
        [](const Config& c) {
          const bool tied = c.tied();
          return std::string(tied ? "embedding.lookup/main_grad" : "embedding.weight/main_grad");
        },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.overlap.waits.replace([](const Where& where, Wait what, bool) {
            return !(what == Wait::gradient && where.module == "embedding.weight");
          });
        },
};

}  // namespace plumb::injectors
