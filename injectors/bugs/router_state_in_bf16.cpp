#include "injectors/bug.hpp"
#include "model/joints/memory.hpp"
#include "number/rounding.hpp"

namespace plumb::injectors {

extern const Bug router_state_in_bf16{
    .id = "router-state-in-bf16",
    .title = "The bias that balances experts is kept in BF16",
    .kind = BugKind::precision,
    .story =
        "The bias moves by a small step each time. In BF16 the step is rounded, and lost once the "
        "bias has grown.",
    .seen_in = "Megatron-LM, merge requests 2895, 3774, and #2765; torchtitan",
    .needs = {.layout = "dp2", .experts = true, .settings = {{"balance_bias", "0.001"}}},
    .hides_when = "experts that are balanced by a loss alone",
    .bites_at = [](const Config&) { return std::string("layers.0.mlp.router/bias"); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.tensors.made.replace([](const Where&, const std::string& id, Tensor& x) {
            if (id.ends_with(".router/bias"))
              for (float& v : x.values) v = round_to(v, bf16);
          });
        },
};

}  // namespace plumb::injectors
