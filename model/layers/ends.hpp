// model/layers/ends.hpp: the two ends of the model: vocabulary-parallel embedding, and head with
// loss.
//
//   embedding   ids (T, 1) -> x: each rank looks up the rows it owns; the sum over ranks is exact
//   head        h (T, D) -> logits (T, V / tp);  loss and its gradient over vocabulary slices
//
// TESTED   tests/model/one_rank_test.cpp, tests/trace/replay_test.cpp
#pragma once

#include "model/layers/operand.hpp"
#include "model/sees.hpp"

namespace plumb::model {

// The targets of a head.
struct Targets {
  Tensor labels, mask;  // (T, 1) each
  float count = 0;      // counted tokens of the whole step
};
struct Batch {
  int number = 0;            // of the micro-batch, global
  Tensor ids;                // (T, 1)
  Targets next, after_next;  // tokens; the latter for an extra head
  Tensor positions;          // within documents, where these are packed               // (T, 1)
};

Tensor embed(Rank& rank, const Batch& batch);
void embed_backward(Rank& rank, const Batch& batch, const Tensor& dy);

// Returns rows of the embedding for this rank's tokens of the stream; records them as `name`.
Tensor look_up(Rank& rank, const std::string& name, const Tensor& ids);
// Gradient of this rank's rows of the embedding, from all tokens of its context.  // (V / tp, D)
Tensor look_up_backward(Rank& rank, const Tensor& ids, const Tensor& dx);

// A head: the prefix of its modules' names, and the weight of its loss.
struct Head {
  std::string of = {};
  float weight = 1;
};
// Runs head and loss forward and backward; h (T, D) are all tokens, as the product sees them.
// Returns dh for this rank's tokens of the stream; `loss` and the gradient of the head's matrix,
// dw (V / tp, D), become this micro-batch's.
Tensor head_and_loss(Rank& rank, const Head& head, const Targets& targets, const Operand& h,
                     Tensor& loss, Tensor& dw);

}  // namespace plumb::model
