#include "injectors/bug.hpp"
#include "model/joints/gradients.hpp"

namespace plumb::injectors {

extern const Bug tied_grad_counted_twice{
    .id = "tied-grad-counted-twice",
    .title = "The gradient of a tied matrix as head is added twice",
    .kind = BugKind::scaling,
    .story =
        "A hook hangs on the parameter for each of its uses and adds the gradient to the buffer "
        "each time it is called.",
    .seen_in = "torchtitan #3174; DeepSpeed #7534",
    .needs = {.families = {Family::gpt}, .layout = "tp2"},
    .hides_when = "no tied matrix",
    .bites_at = [](const Config&) { return std::string("head.weight/main_grad"); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.gradients.part.replace([](const Where& where, Tensor& part) {
            if (where.module != "head.weight") return;
            for (float& g : part.values) g *= 2;
          });
        },
};

}  // namespace plumb::injectors
