#include "injectors/bug.hpp"
#include "model/joints/layout.hpp"

namespace plumb::injectors {

extern const Bug dispatched_copies_not_awaited{
    .id = "dispatched-copies-not-awaited",
    .title = "Experts take copies of tokens before they have come from their rank",
    .kind = BugKind::stale_data,
    .story =
        "Copies of other ranks' tokens travel while experts work on those that have come. Without "
        "the wait experts take what stood in the buffer: zeros at first, and later the copies of "
        "another layer where these were as many.",
    .seen_in = "made up here: an all-to-all in pieces, with an event on the wrong stream",
    .needs = {.layout = "dp2,ep2,overlap:2", .experts = true},
    .hides_when = "nothing overlaps; all experts on every rank",
    .bites_at = nullptr,  // where the first that had not come is
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.overlap.waits.replace(
              [](const Where&, Wait what, bool) { return what != Wait::dispatched; });
        },
};

}  // namespace plumb::injectors
