#include "injectors/bug.hpp"
#include "model/joints/layers.hpp"

namespace plumb::injectors {

extern const Bug embedding_mask_on_shifted_ids{
    .id = "embedding-mask-on-shifted-ids",
    .title = "Embedding mask made from ids that were shifted already",
    .kind = BugKind::computation,
    .story =
        "The vocabulary-parallel lookup shifts ids into the rank's range first and compares the "
        "shifted ids with the global range. Rank 0 adds its row 0 for every foreign token, the "
        "other ranks drop their own rows; the loss starts near ln V anyway.",
    .seen_in = "Slapo vocabulary-parallel embedding",
    .paper = {1},
    .needs = {.layout = "tp2"},
    .hides_when = "tp1, or a text whose ids all lie on rank 0",
    .bites_at = [](const Config&) { return std::string("m0/embedding/out"); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.embedding.keeps_row.replace(
              [](const Where&, int /*id*/, int local, int first, int last) {
                return local >= first && local < last;
              });
        },
};

}  // namespace plumb::injectors
