#include "injectors/bug.hpp"
#include "model/joints/layers.hpp"

namespace plumb::injectors {

extern const Bug dropout_lost_after_eval{
    .id = "dropout-lost-after-eval",
    .title = "After an evaluation nothing is dropped any more",
    .kind = BugKind::computation,
    .story =
        "Evaluation switches dropout off, and a module of its own never hears that training goes "
        "on. The first step is right; every one after the first evaluation trains without "
        "dropout.",
    .seen_in = "Megatron-LM, wrapper of flash attention, July 2023",
    .in_the_next_step = true,
    .needs = {.layout = "tp2", .settings = {{"dropout", "0.1"}}},
    .hides_when = "before the first evaluation, or without dropout",
    .bites_at = [](const Config&) { return std::string("m0/embedding.dropout/out"); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.dropout.drops.replace([](const Where& where) { return !where.after_a_step; });
        },
};

}  // namespace plumb::injectors
