#include "injectors/bug.hpp"
#include "model/joints/experts.hpp"

namespace plumb::injectors {

extern const Bug aux_loss_scale_tp_cp{
    .id = "aux-loss-scale-tp-cp",
    .title = "The loss that balances experts counts once for each rank that shares the tokens",
    .kind = BugKind::scaling,
    .story =
        "Every sequence- and context-parallel rank has the same mean over all tokens, and its "
        "gradient is multiplied as if each had a part of it. The loss is right, and the router "
        "learns to balance too hard.",
    .seen_in = "Megatron-LM #2237, #5047",
    .needs = {.layout = "tp2,sp", .experts = true},
    .hides_when = "one rank along tp and cp, or no balancing loss",
    .bites_at =
        [](const Config& c) {
          return "m0/layers." + std::to_string(c.blocks() - 1) + ".mlp.router/grad_out";
        },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.router.loss_factor.replace([](const Where& where, std::string_view loss) {
            return loss == "balance" ? static_cast<double>(where.tp_size * where.cp_size) : 1.0;
          });
        },
};

}  // namespace plumb::injectors
