// model/layers/ends.hpp: the two ends of the model: vocabulary-parallel embedding, and head with
// loss.
//
//   embedding   ids (T, 1) -> x: each rank looks up the rows it owns; the sum over ranks is exact
//   head        h (T, D) -> logits (T, V / tp);  loss and its gradient over vocabulary slices
#pragma once

#include "model/layers/operand.hpp"

namespace plumb {

struct Batch {
  int number = 0;            // of the micro-batch, global
  Tensor ids, labels, mask;  // (T, 1) each
  Tensor positions;          // within documents, where these are packed               // (T, 1)
  float count = 0;           // counted tokens of the whole step
};

Tensor embed(Rank& rank, const Batch& batch);
void embed_backward(Rank& rank, const Batch& batch, const Tensor& dy);

// Runs head and loss forward and backward; h (T, D) are all tokens, as the product sees them.
// Returns dh for this rank's tokens of the stream; adds the loss share to `loss`.
Tensor head_and_loss(Rank& rank, const Batch& batch, const Operand& h, Tensor& loss);

}  // namespace plumb
