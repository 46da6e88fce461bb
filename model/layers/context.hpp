// model/layers/context.hpp: context parallelism: ranks that each have some tokens of every
// sequence, zigzag: of 2 cp chunks the first and the last, the second and the last but one, ...
//
// Between tokens only attention looks: every rank gathers all keys and values (allgather), ranks
// trade tokens for heads before and after (ulysses), or see keys and values go round (ring.hpp).
#pragma once

#include "kernels/ops.hpp"
#include "model/rank.hpp"

namespace plumb {

// A rank's tokens of every sequence, from all; and this rank's.          // (T, C) -> (T / cp, C)
Tensor tokens_of(const Rank& rank, int context, const Tensor& all);
Tensor own_context(const Rank& rank, const Tensor& all);
// All tokens in the order of the sequences, from every rank's.           // (T / cp, C) -> (T, C)
Tensor whole_context(const Rank& rank, const Tensor& own);

// ulysses: some heads' columns of all tokens for all columns of own tokens, and back.
Tensor heads_for_tokens(const Rank& rank, const Tensor& own);    // (T / cp, F) -> (T, F / cp)
Tensor tokens_for_heads(const Rank& rank, const Tensor& heads);  // (T, F / cp) -> (T / cp, F)

}  // namespace plumb
