#include "injectors/bug.hpp"
#include "model/joints/attention.hpp"

namespace plumb::injectors {

extern const Bug stretched_rotation_of_local_length{
    .id = "stretched-rotation-of-local-length",
    .title = "Rotations are stretched for the length of a rank's own part of a sequence",
    .kind = BugKind::sharding,
    .story =
        "Rotations for longer sequences (YaRN) take the length from the tensor that they are given. "
        "Under context parallelism that is a part of the sequence, so that all frequencies are "
        "those of sequences that have grown less. All ranks agree, and positions are right.",
    .seen_in = "made up here: a table that asks the input for its length",
    .needs = {.families = {Family::llama}, .layout = "cp2", .settings = {{"rope_stretch", "4"}}},
    .hides_when = "one context; sequences that are no longer than before",
    .bites_at = [](const Config&) { return std::string("m0/layers.0.attn.rope/out"); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.rotation.stretch.replace(
              [](const Where& where, int promised) { return promised / where.cp_size; });
        },
};

}  // namespace plumb::injectors
