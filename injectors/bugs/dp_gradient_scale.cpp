#include "injectors/bug.hpp"
#include "model/joints/gradients.hpp"

namespace plumb::injectors {

extern const Bug dp_gradient_scale{
    .id = "dp-gradient-scale",
    .title = "Gradients come out as many times too large as there are data-parallel ranks",
    .kind = BugKind::scaling,
    .story =
        "The gradients of data-parallel ranks are added up, and the step that makes a mean of the "
        "sum is left out. Adam does not see a factor, so the loss looks normal; a run over other "
        "ranks clips at another length.",
    .seen_in = "made up here, after the row of TTrace's table, whose report is not known",
    .paper = {4, Match::guess},
    .needs = {.layout = "dp2"},
    .hides_when = "one data-parallel rank; in parameters, where nothing is clipped",
    .bites_at = first_main_grad,
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.gradients.factor.replace(
              [](const Where& where) { return static_cast<float>(where.dp_size); });
        },
};

}  // namespace plumb::injectors
