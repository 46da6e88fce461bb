#include "injectors/bug.hpp"
#include "model/joints/layout.hpp"

namespace plumb::injectors {
namespace {

// The rows of x (sequence by sequence) as one reads them who takes them for contiguous where they
// lie token by token.
Tensor as_it_lies(const Tensor& x, std::size_t sequences) {
  const std::size_t tokens = x.rows / sequences;
  Tensor read(x.rows, x.cols);
  for (std::size_t s = 0; s < sequences; ++s) {
    for (std::size_t t = 0; t < tokens; ++t) {
      std::copy_n(x.row(s * tokens + t), x.cols, read.row(t * sequences + s));
    }
  }
  return read;
}

}  // namespace

extern const Bug cp_attention_dqkv_wrong{
    .id = "cp-attention-dqkv-wrong",
    .title = "Ring attention's backward reads the gradient of its output in another order",
    .kind = BugKind::computation,
    .story =
        "The gradient of the output arrives as a view with its sequences and tokens exchanged. "
        "The other paths make it contiguous; the ring's reads the memory as it lies, so that "
        "every token gets another token's gradient. Forward is right. The reports say where, not "
        "why: that mechanism is likely, from TransformerEngine's later change.",
    .seen_in = "Megatron-LM #1464, #1465, TransformerEngine #1557, PR 1539",
    .paper = {13},
    .needs = {.layout = "cp2:ring", .sequences = 2},
    .hides_when = "no ring; micro-batches of one sequence",
    .bites_at =
        [](const Config& c) {
          return "m0/layers." + std::to_string(c.blocks() - 1) + ".attn.core/grad_in";
        },
    .plant =
        [](Joints& joints, const Dose&, const Config&) {
          joints.context.output_gradient.replace(
              [](const Where&, std::size_t sequences, const Tensor& promised) {
                return as_it_lies(promised, sequences);
              });
        },
};

}  // namespace plumb::injectors
