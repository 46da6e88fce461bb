#include <algorithm>

#include "injectors/bug.hpp"
#include "model/joints/attention.hpp"

namespace plumb::injectors {

extern const Bug rope_backward_lacks_position_zero{
    .id = "rope-backward-lacks-position-zero",
    .title = "Backward rotates the first token of a sequence as if it were the second",
    .kind = BugKind::computation,
    .story =
        "Under context parallelism backward looks angles up in a table of its own, which begins "
        "with position one; a clamp hides that. Only the gradient of the first key is wrong, on "
        "the rank that has it.",
    .seen_in = "made up here: an index from one, in backward only",
    .needs = {.families = {Family::llama}, .layout = "cp2"},
    .hides_when = "positions that are learned",
    .bites_at =
        [](const Config& c) {
          return "m0/layers." + std::to_string(c.blocks() - 1) + ".attn.rope/grad_in";
        },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.rotation.positions.replace(
              [](const Where& where, std::vector<std::size_t> positions) {
                if (!where.backward || where.recomputing) return positions;
                for (std::size_t& p : positions) p = std::max<std::size_t>(p, 1);
                return positions;
              });
        },
};

}  // namespace plumb::injectors
