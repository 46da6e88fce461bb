#include "injectors/bug.hpp"
#include "model/joints/memory.hpp"

namespace plumb::injectors {

extern const Bug cp_group_left_from_eval{
    .id = "cp-group-left-from-eval",
    .title = "After an evaluation attention goes on with the evaluation's group",
    .kind = BugKind::communication,
    .story =
        "Evaluation runs with one context, and the module keeps the group that it was given for "
        "that. In training that follows, what a rank gathers from the others is its own.",
    .seen_in = "Megatron-LM #7452, #7045; Megatron-Bridge #3755",
    .in_the_next_step = true,
    .needs = {.layout = "cp2:allgather"},
    .hides_when = "before the first evaluation; evaluation in the layout of training",
    .bites_at = [](const Config&) { return std::string("m0/layers.0.attn.core/out"); },
    .plant =
        [](Joints& joints, const Dose&, const Config& c) {
          joints.arrivals.came.replace([width = static_cast<std::size_t>(c.qkv_width())](
                                           const Where& where, const Arrival& what,
                                           std::span<float> x) {
            const bool keys = what.cols * static_cast<std::size_t>(where.tp_size) == width;
            if (!where.after_a_step || what.way != Way::gather || what.axis != "cp" || !keys)
              return;
            const std::size_t own = x.size() / static_cast<std::size_t>(where.cp_size);
            const std::span<float> mine = x.subspan(own * static_cast<std::size_t>(where.cp), own);
            const std::vector<float> kept(mine.begin(), mine.end());
            for (std::size_t i = 0; i < x.size(); ++i) x[i] = kept[i % own];
          });
        },
};

}  // namespace plumb::injectors
