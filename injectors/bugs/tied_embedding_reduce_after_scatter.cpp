#include "injectors/bug.hpp"
#include "model/joints/layout.hpp"

namespace plumb::injectors {

extern const Bug tied_embedding_reduce_after_scatter{
    .id = "tied-embedding-reduce-after-scatter",
    .title = "A tied matrix's two gradients added up, one reduced and one not yet",
    .kind = BugKind::communication,
    .story =
        "With a sharded optimizer each data-parallel rank ends up with its share of the reduced "
        "gradients. First and last stage keep the tied matrix at other places of their buffers, so "
        "that where one has its share reduced the other still has its own micro-batches' "
        "gradient; then they are added up. The two copies drift apart.",
    .seen_in = "Megatron-LM #844, #656",
    .paper = {5, Match::likely},
    .needs = {.families = {Family::gpt}, .layout = "dp2,pp2,zero1"},
    .hides_when = "one data-parallel rank, one stage, no ZeRO, or a head of its own",
    .bites_at = [](const Config&) { return std::string("embedding.weight/main_grad"); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.pipeline.ties_sums.replace(
              [](const Where&, bool in_shares) { return !in_shares; });
        },
};

}  // namespace plumb::injectors
