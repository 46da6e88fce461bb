// model/layers/context.hpp: context parallelism: ranks that each have some tokens of every
// sequence, zigzag: of 2 cp chunks the first and the last, the second and the last but one, ...
//
// Attention alone looks at other tokens: every rank gathers all keys and values (allgather), ranks
// trade tokens for heads before and after (ulysses), or keys and values go round (ring.hpp).
//
// TESTED   tests/model/one_rank_test.cpp, tests/trace/replay_test.cpp
#pragma once

#include "kernels/ops.hpp"
#include "model/rank/rank.hpp"
#include "model/sees.hpp"

namespace plumb::model {

// Returns a rank's tokens of every sequence, from all; and this rank's.  // (T, C) -> (T / cp, C)
Tensor tokens_of(const Rank& rank, int context, const Tensor& all);
Tensor own_context(const Rank& rank, const Tensor& all);
// Returns all tokens in the order of the sequences.                      // (T / cp, C) -> (T, C)
Tensor whole_context(const Rank& rank, const Tensor& own);

// ulysses: trades all columns of own tokens for some heads' columns of all tokens, and back.
Tensor heads_for_tokens(const Rank& rank, const Tensor& own);    // (T / cp, F) -> (T, F / cp)
Tensor tokens_for_heads(const Rank& rank, const Tensor& heads);  // (T, F / cp) -> (T / cp, F)

}  // namespace plumb::model
