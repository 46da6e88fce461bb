// model/plan/travelling_rows.hpp: which rows of a whole tensor lie where tokens are spread over
// context-parallel ranks, and their copies over experts.
//
// TESTED   tests/model/one_rank_test.cpp: the executor's records lie where these say
#pragma once

#include <cstddef>
#include <vector>

#include "model/sees.hpp"
#include "model/spec/config.hpp"
#include "model/spec/layout.hpp"
#include "number/matrix.hpp"

namespace plumb::model {

// The zigzag chunks of each sequence that a context has, of so many tokens.
std::vector<std::size_t> tokens_of_context(const Config& c, const Layout& l, int context,
                                           std::size_t tokens);

// Whose copies: of the tokens of a context (where experts are whole, of a tensor-parallel rank's
// slice of them), for the experts of a group.
struct Travellers {
  int context, tp, group;
};

// Rows of the whole that these copies have, in the order of the tokens' ranks; `ids` (T, k): the
// experts of all tokens. Dropped copies go to the last group.
std::vector<std::size_t> rows_of_copies(const Config& c, const Layout& l, const Tensor& ids,
                                        const Travellers& of);

}  // namespace plumb::model
