#include <numeric>

#include "injectors/bug.hpp"
#include "model/joints/attention.hpp"

namespace plumb::injectors {

extern const Bug rope_length_or_offset_local{
    .id = "rope-length-or-offset-local",
    .title = "Later contexts count their tokens' positions from zero",
    .kind = BugKind::sharding,
    .story =
        "The table of rotations is made for the tokens that a rank has, from position 0 on. The "
        "first context has the positions that it should; the others rotate by those of the "
        "beginning.",
    .seen_in = "Megatron-LM, August 2023, and merge request 3603; Seq1F1B #6",
    .needs = {.families = {Family::llama}, .layout = "cp2"},
    .hides_when = "one context, or positions that are learned",
    .bites_at = [](const Config&) { return std::string("m0/layers.0.attn.rope/out"); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.rotation.positions.replace(
              [](const Where& where, std::vector<std::size_t> positions) {
                if (where.cp > 0) std::iota(positions.begin(), positions.end(), std::size_t(0));
                return positions;
              });
        },
};

}  // namespace plumb::injectors
