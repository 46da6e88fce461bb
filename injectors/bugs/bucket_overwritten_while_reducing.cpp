#include "injectors/bug.hpp"
#include "model/joints/layout.hpp"

namespace plumb::injectors {

extern const Bug bucket_overwritten_while_reducing{
    .id = "bucket-overwritten-while-reducing",
    .title = "A bucket filled again while it is being reduced",
    .kind = BugKind::stale_data,
    .story =
        "Two buffers take turns, and the third bucket is written into the first one's before "
        "that has been read: its sum has gradients of other parameters in it.",
    .seen_in = "DeepSpeed #5606, #7805, #7371",
    .needs = {.layout = "dp2,overlap:26"},
    .hides_when =
        "nothing overlaps, one data-parallel rank, two buckets, or a link faster than backward",
    .bites_at = [](const Config&) { return std::string("head.weight/main_grad"); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.overlap.waits.replace([](const Where& where, Wait what, bool) {
            return !(what == Wait::bucket_left && where.module == "head.weight");
          });
        },
};

}  // namespace plumb::injectors
