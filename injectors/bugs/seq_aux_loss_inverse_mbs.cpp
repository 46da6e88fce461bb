#include "injectors/bug.hpp"
#include "model/joints/experts.hpp"

namespace plumb::injectors {

extern const Bug seq_aux_loss_inverse_mbs{
    .id = "seq-aux-loss-inverse-mbs",
    .title = "The loss that balances experts shrinks with the sequences of a micro-batch",
    .kind = BugKind::scaling,
    .story =
        "The loss is a mean over all tokens of a micro-batch, and its gradient is divided by the "
        "tokens as often as the micro-batch has sequences.",
    .seen_in = "Megatron-LM #5798",
    .needs = {.layout = "tp2", .experts = true, .sequences = 2},
    .hides_when = "micro-batches of one sequence",
    .bites_at =
        [](const Config& c) {
          return "m0/layers." + std::to_string(c.blocks() - 1) + ".mlp.router/grad_out";
        },
    .plant =
        [](Joints& joints, const Dose&, const Config& c) {
          joints.router.loss_factor.replace(
              [share = 1.0 / c.sequences](const Where&, std::string_view loss) {
                return loss == "balance" ? share : 1.0;
              });
        },
};

}  // namespace plumb::injectors
