#include "injectors/bug.hpp"
#include "model/joints/layout.hpp"

namespace plumb::injectors {

extern const Bug split_input_kept_by_local_rank{
    .id = "split-input-kept-by-local-rank",
    .title = "Each rank keeps the first slice of an input that backward gathers",
    .kind = BugKind::sharding,
    .story =
        "Inputs of recomputed layers are kept in slices. The slice is chosen by a rank's number "
        "within another group, in which each of them is the first. Forward is right; backward "
        "computes again from the first slice, several times over.",
    .seen_in = "made up here: a slice by the wrong group's rank",
    .needs = {.layout = "tp2,recompute,split"},
    .hides_when = "inputs that are kept whole; one tensor-parallel rank",
    .bites_at = [](const Config&) { return std::string("m0/layers.0.norm1/out"); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.recompute.keeps.replace([](const Where&, std::size_t, Slice promised) {
            return Slice{0, promised.last - promised.first};
          });
        },
};

}  // namespace plumb::injectors
