#include "injectors/bug.hpp"
#include "model/joints/gradients.hpp"

namespace plumb::injectors {

extern const Bug norm_grad_tp_times_too_large{
    .id = "norm-grad-tp-times-too-large",
    .title = "Norm gradients that are whole summed over tensor-parallel ranks",
    .kind = BugKind::scaling,
    .story =
        "Without sequence parallelism every tensor-parallel rank has all tokens, and so the whole "
        "gradient of a norm's weight. With context parallelism and FP8 it was summed over these "
        "ranks all the same: it is exactly the tensor-parallel degree too large. The cause was "
        "not published; this is the least that has the effect.",
    .seen_in = "Megatron-LM #1528, TransformerEngine #1677",
    .paper = {14},
    .needs = {.layout = "tp2,cp2", .recipe = "fp8-delayed"},
    .hides_when =
        "no tensor or no context parallelism; sequence parallelism, under which the sum "
        "is due; recipes without short operands",
    .bites_at = [](const Config&) { return std::string("m0/final_norm.weight/wgrad"); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.gradients.sums_over_sequence.replace([](const Where& where, bool promised) {
            const bool norm = where.module.find("norm") != std::string::npos;
            return promised || (norm && where.tp_size > 1 && where.cp_size > 1);
          });
        },
};

}  // namespace plumb::injectors
