// model/layers/head.hpp: the head, and the loss over its vocabulary-parallel logits.
//
//   h (T, D) -> logits (T, V / tp);  loss and its gradient over vocabulary slices
//
// TESTED   tests/model/one_rank_test.cpp, tests/trace/replay_test.cpp
#pragma once

#include "model/layers/batch.hpp"
#include "model/layers/operand.hpp"
#include "model/sees.hpp"

namespace plumb::model {

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
