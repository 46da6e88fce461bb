#include "injectors/bug.hpp"
#include "model/joints/attention.hpp"
#include "number/rounding.hpp"

namespace plumb::injectors {

extern const Bug rope_phase_in_bf16{
    .id = "rope-phase-in-bf16",
    .title = "Rotations are made from frequencies in BF16",
    .kind = BugKind::precision,
    .story =
        "The frequencies are cast with the model. Each is off by up to a part in 512, and the "
        "angle by as much times the position: late tokens are rotated by another angle.",
    .seen_in = "gpt-neox #1003; transformers #25681, #29285, #29496; Modalities #462",
    .needs = {.families = {Family::llama}, .layout = "tp2"},
    .hides_when = "short sequences; positions that are learned",
    .bites_at = [](const Config&) { return std::string("m0/layers.0.attn.rope/out"); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.rotation.frequency.replace([](const Where&, double promised) {
            return static_cast<double>(round_to(static_cast<float>(promised), bf16));
          });
        },
};

}  // namespace plumb::injectors
