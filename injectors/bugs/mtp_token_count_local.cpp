#include "injectors/bug.hpp"
#include "model/joints/gradients.hpp"

namespace plumb::injectors {

extern const Bug mtp_token_count_local{
    .id = "mtp-token-count-local",
    .title = "The extra head's loss is a mean over the micro-batch's own tokens",
    .kind = BugKind::scaling,
    .story =
        "The main loss is divided by all counted tokens of the step, the extra head's by those of "
        "its micro-batch, and the sum by the number of micro-batches: short ones count too much. "
        "With sequences of one length nothing is wrong.",
    .seen_in = "Megatron-LM #7452, #3159, #2417, #7498",
    .needs = {.layout = "dp2", .settings = {{"mtp", "1"}}},
    .hides_when = "no extra head; micro-batches with equally many counted tokens",
    .bites_at = [](const Config&) { return std::string("m0/mtp.loss/out"); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.loss.denominator.replace(
              [](const Where& where, float here, float all, int micro_batches) {
                if (where.module != "mtp.loss") return all;
                return here * static_cast<float>(micro_batches);
              });
        },
};

}  // namespace plumb::injectors
