#include "injectors/bug.hpp"
#include "model/joints/memory.hpp"
#include "number/rounding.hpp"

namespace plumb::injectors {

extern const Bug rmsnorm_dweight_low_precision_accum{
    .id = "rmsnorm-dweight-low-precision-accum",
    .title = "The gradient of a norm's weight is summed in BF16",
    .kind = BugKind::precision,
    .story =
        "A fused kernel keeps the sum over tokens in the format of its inputs. Here what each "
        "micro-batch gives is rounded once, at its end: the least that such a kernel does.",
    .seen_in = "Liger-Kernel #950, #1329",
    .needs = {.layout = "tp2"},
    .hides_when = "recipes whose gradients are in BF16",
    .bites_at = [](const Config&) { return std::string("m0/final_norm.weight/wgrad"); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.tensors.made.replace([](const Where&, const std::string& id, Tensor& x) {
            const bool of_norm = id.find("norm") != id.npos;
            if (of_norm && id.ends_with(".weight/wgrad"))
              for (float& v : x.values) v = round_to(v, bf16);
          });
        },
};

}  // namespace plumb::injectors
