#include "injectors/bug.hpp"
#include "model/joints/optimizer.hpp"

namespace plumb::injectors {

extern const Bug clip_of_first_step_captured{
    .id = "clip-of-first-step-captured",
    .title = "From the second step on the last stage does not clip",
    .kind = BugKind::scaling,
    .story =
        "The last stage records its optimizer's work once and plays it again. The coefficient is "
        "recorded as a number, that of a trial run without gradients: one. The norm that is "
        "logged is right.",
    .seen_in = "made up here: a number from the host in a captured graph",
    .in_the_next_step = true,
    .needs = {.layout = "pp2"},
    .hides_when = "norms below the limit, or the first step",
    .bites_at =
        [](const Config& c) {
          const bool tied = c.tied() || c.mtp > 0;
          if (tied) return std::string("embedding.weight/clipped_grad");  // the last stage has it
          return "layers." + std::to_string((c.layers + 1) / 2) + ".norm1.weight/clipped_grad";
        },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.optimizer.clips_by.replace([](const Where& where, float coefficient) {
            const bool last = where.pp == where.pp_size - 1;
            return last && where.after_a_step ? 1.0F : coefficient;
          });
        },
};

}  // namespace plumb::injectors
