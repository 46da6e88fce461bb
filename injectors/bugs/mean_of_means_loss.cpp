#include "injectors/bug.hpp"
#include "model/joints/gradients.hpp"

namespace plumb::injectors {

extern const Bug mean_of_means_loss{
    .id = "mean-of-means-loss",
    .title = "Mean of the micro-batches' means instead of the mean over all tokens",
    .kind = BugKind::scaling,
    .story =
        "Each micro-batch divides by its own count of tokens and the means are averaged; tokens of "
        "short sequences weigh more. Equal counts hide it.",
    .seen_in = "gradient accumulation in several frameworks (transformers, October 2024)",
    .needs = {.layout = "dp2"},
    .hides_when = "equal counts, or one micro-batch",
    .bites_at = [](const Config&) { return std::string("m0/loss/out"); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.loss.denominator.replace([](const Where&, float here, float, int micro_batches) {
            return here * static_cast<float>(micro_batches);
          });
        },
};

}  // namespace plumb::injectors
