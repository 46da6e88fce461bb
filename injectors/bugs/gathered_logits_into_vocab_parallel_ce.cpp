#include "injectors/bug.hpp"
#include "model/joints/gradients.hpp"

namespace plumb::injectors {

extern const Bug gathered_logits_into_vocab_parallel_ce{
    .id = "gathered-logits-into-vocab-parallel-ce",
    .title = "The loss takes whole rows of logits for slices of the vocabulary",
    .kind = BugKind::computation,
    .story =
        "The head gathers its logits, and the cross entropy that follows expects a slice on each "
        "tensor-parallel rank. So every exponential is counted once a rank, and probabilities "
        "come out too small by the number of ranks.",
    .seen_in = "Megatron-LM #7452",
    .needs = {.layout = "tp2"},
    .hides_when = "one tensor-parallel rank, or a head that leaves its logits sliced",
    .bites_at = [](const Config&) { return std::string("m0/loss/lse"); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.loss.sums_of_exponentials.replace([](const Where& where, Tensor& sums) {
            for (float& sum : sums.values) sum *= static_cast<float>(where.tp_size);
          });
        },
};

}  // namespace plumb::injectors
