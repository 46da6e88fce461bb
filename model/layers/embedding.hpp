// model/layers/embedding.hpp: vocabulary-parallel embedding.
//
//   ids (T, 1) -> x (T, D): each rank looks up the rows it owns; the sum over ranks is exact
//
// TESTED   tests/model/one_rank_test.cpp, tests/trace/replay_test.cpp
#pragma once

#include "model/layers/batch.hpp"
#include "model/rank/rank.hpp"
#include "model/sees.hpp"

namespace plumb::model {

Tensor embed(Rank& rank, const Batch& batch);
void embed_backward(Rank& rank, const Batch& batch, const Tensor& dy);

// Returns rows of the embedding for this rank's tokens of the stream; records them as `name`.
Tensor look_up(Rank& rank, const std::string& name, const Tensor& ids);
// Gradient of this rank's rows of the embedding, from all tokens of its context.  // (V / tp, D)
Tensor look_up_backward(Rank& rank, const Tensor& ids, const Tensor& dx);

}  // namespace plumb::model
