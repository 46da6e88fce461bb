#include "injectors/bug.hpp"
#include "model/joints/optimizer.hpp"

namespace plumb::injectors {

extern const Bug amax_not_reduced_over_tp{
    .id = "amax-not-reduced-over-tp",
    .title = "Histories of largest magnitudes kept by each tensor-parallel rank alone",
    .kind = BugKind::communication,
    .story =
        "The largest magnitude that a tensor's next scale is made from is that of all "
        "data-parallel ranks, but of one tensor-parallel slice. Ranks that share a tensor scale "
        "it differently.",
    .seen_in = "Megatron-LM #442",
    .paper = {8, Match::likely},
    .needs = {.layout = "tp2", .recipe = "fp8-delayed"},
    .hides_when = "one rank, or recipes without histories",
    .bites_at =
        [](const Config& c) {
          const std::string first = c.tied() ? "embedding" : "layers.0" + c.queries();
          return first + ".weight/operand_history";
        },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.scaling.reduces_over.replace(
              [](const Where&, std::string_view axis) { return axis != "tp"; });
        },
};

}  // namespace plumb::injectors
