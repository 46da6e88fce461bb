#include <algorithm>

#include "injectors/bug.hpp"
#include "model/joints/memory.hpp"

namespace plumb::injectors {
namespace {

// The rows of so many sequences, first those of their first tokens, then of their second ones ...
Tensor by_token(const Tensor& x, std::size_t sequences) {
  Tensor y(x.rows, x.cols);
  const std::size_t tokens = x.rows / sequences;
  for (std::size_t i = 0; i < x.rows; ++i) {
    const std::size_t to = i % tokens * sequences + i / tokens;
    std::copy_n(x.row(i), x.cols, y.row(std::min(to, x.rows - 1)));
  }
  return y;
}

}  // namespace

extern const Bug sp_token_combine_batch_offset{
    .id = "sp-token-combine-batch-offset",
    .title = "What experts return is added to other sequences' tokens",
    .kind = BugKind::sharding,
    .story =
        "A token's place in its rank's slice is turned into its place among all by adding the "
        "tokens of the ranks before: right for one sequence. With more, tokens of a rank change "
        "places.",
    .seen_in = "torchtitan #3604",
    .needs = {.layout = "tp2,sp", .experts = true, .sequences = 2},
    .hides_when = "micro-batches of one sequence",
    .bites_at = [](const Config&) { return std::string("m0/layers.0.mlp.combine/out"); },
    .plant =
        [](Joints& joints, const Dose&, const Config& c) {
          joints.tensors.made.replace([n = static_cast<std::size_t>(c.sequences)](
                                          const Where& where, const std::string& id, Tensor& x) {
            if (where.tp_size > 1 && id.ends_with(".mlp.combine/out")) x = by_token(x, n);
          });
        },
};

}  // namespace plumb::injectors
