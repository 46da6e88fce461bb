#include "injectors/bug.hpp"
#include "model/joints/layout.hpp"

namespace plumb::injectors {

extern const Bug tied_embedding_not_synced_across_pp{
    .id = "tied-embedding-not-synced-across-pp",
    .title = "A tied matrix's two gradients not summed between first and last stage",
    .kind = BugKind::missing_sum,
    .story =
        "The embedding of the first stage and the head of the last are one matrix, each with its "
        "part of the gradient. Without the sum between the stages the two copies drift apart.",
    .seen_in = "Megatron-LM #656; Megatron-Bridge #5380",
    .needs = {.families = {Family::gpt}, .layout = "pp2"},
    .hides_when = "one stage, or a head of its own",
    .bites_at = [](const Config&) { return std::string("embedding.weight/main_grad"); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.pipeline.ties_gradients.replace([](const Where&) { return false; });
        },
};

}  // namespace plumb::injectors
