#include "injectors/bug.hpp"
#include "model/joints/memory.hpp"
#include "number/rounding.hpp"

namespace plumb::injectors {

extern const Bug bf16_params_without_master{
    .id = "bf16-params-without-master",
    .title = "Updates are applied to weights in BF16",
    .kind = BugKind::precision,
    .story =
        "There is no master in FP32. Near 1 the spacing of BF16 is wider than most updates, so "
        "that weights of norms never move.",
    .seen_in = "vllm speculators #765; Model-Optimizer #2322; apex #1731",
    .needs = {.layout = "tp2"},
    .hides_when = "recipes that promise no masters",
    .bites_at = [](const Config&) { return std::string("embedding.weight/master"); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.tensors.made.replace([](const Where&, const std::string& id, Tensor& x) {
            if (id.ends_with("/master"))
              for (float& v : x.values) v = round_to(v, bf16);
          });
        },
};

}  // namespace plumb::injectors
