#include "injectors/bug.hpp"
#include "model/joints/attention.hpp"

namespace plumb::injectors {

extern const Bug packed_documents_see_each_other{
    .id = "packed-documents-see-each-other",
    .title = "Under context parallelism the mask forgets where documents begin",
    .kind = BugKind::computation,
    .story =
        "Several documents share a sequence and must not see each other. The path over contexts "
        "was given the causal mask alone, so that a document's first tokens attend to what "
        "happens to stand before them; positions still begin anew, and the loss looks fine.",
    .seen_in = "made up here: packed sequences on a context-parallel path without their lengths",
    .needs = {.layout = "cp2", .settings = {{"documents", "3"}}},
    .hides_when = "no context parallelism, or one document to each sequence",
    .bites_at = [](const Config&) { return std::string("m0/layers.0.attn.core/out"); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.packing.first_key.replace(
              [](const Where& where, std::size_t /*position*/, std::size_t promised) {
                return where.cp_size > 1 ? std::size_t(0) : promised;
              });
        },
};

}  // namespace plumb::injectors
