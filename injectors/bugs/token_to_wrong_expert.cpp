#include <algorithm>

#include "injectors/bug.hpp"
#include "model/joints/experts.hpp"

namespace plumb::injectors {
namespace {

// The token that rates its second expert highest above the last one goes to that last one.
void misroute(const Tensor& logits, Tensor& choices) {
  std::size_t token = 0, least_of_token = 0;
  float clearest = -1;
  for (std::size_t t = 0; t < choices.rows; ++t) {
    const float* row = logits.row(t);
    const float* least = std::min_element(row, row + logits.cols);
    const float clear = row[static_cast<std::size_t>(choices(t, choices.cols - 1))] - *least;
    if (clear <= clearest) continue;
    clearest = clear;
    token = t;
    least_of_token = static_cast<std::size_t>(least - row);
  }
  choices(token, choices.cols - 1) = static_cast<float>(least_of_token);
}

}  // namespace

extern const Bug token_to_wrong_expert{
    .id = "token-to-wrong-expert",
    .title = "One token goes to the expert that its router rates lowest",
    .kind = BugKind::computation,
    .story =
        "A kernel that selects experts gives one token of a layer another last expert than its "
        "logits say. Everything after it is computed as it should be, for that choice: only the "
        "choice is wrong, and healthy runs differ in choices, too, where logits are nearly equal.",
    .seen_in = "made up here: the smallest routing bug",
    .needs = {.layout = "dp2", .experts = true},
    .hides_when = "dense models",
    .bites_at = [](const Config&) { return std::string("m0/layers.1.mlp.router/routing"); },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.router.after_choice.replace(
              [](const Where& where, const Tensor& logits, Tensor& choices) {
                if (where.micro_batch == 0 && where.layer == 1) misroute(logits, choices);
              });
        },
};

}  // namespace plumb::injectors
