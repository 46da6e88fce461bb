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

// Rows of the whole that the copies of a context's tokens have whose experts are of a group, in the
// order of the context; `ids` (T, k): the experts of all tokens. Dropped copies go to the last
// group.
std::vector<std::size_t> rows_of_copies(const Config& c, const Layout& l, const Tensor& ids,
                                        int context, int group);

}  // namespace plumb::model
