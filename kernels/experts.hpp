// kernels/experts.hpp: the operations of a mixture of experts besides products, in plain loops.
//
// They are under test, as those of kernels/ops.hpp are; the promises are bounds/operations' router,
// top_k, dispatch and combine. Nothing here rounds to a format.
//
//   T tokens of D, E experts, k of them a token: T k rows, by expert, then by token; those of
//   copies that were dropped (choice E) come last, as zeros
//
// TESTED   tests/model/one_rank_test.cpp (bit for bit the promise)
#pragma once

#include <vector>

#include "kernels/sees.hpp"
#include "number/matrix.hpp"

namespace plumb::kernels {

struct Ratings {
  Tensor p;       // (T, E) softmax of the logits
  Tensor margin;  // (T, 1) between the k-th rating and the next
  Tensor lse;     // (T, 1) log of the sum of exponentials
};
// `ratings`: the logits with the bias that only the choice sees.
Ratings rate_experts(const Tensor& logits, const Tensor& ratings, std::size_t k);

// Returns each token's k largest ratings; of equal ones the first expert.                 // (T, k)
Tensor choose_experts(const Tensor& ratings, std::size_t k);
// Each expert keeps its first `most` copies in the order of the tokens; the others get the number
// `experts`, which is no expert.                                                        // (T, k)
Tensor within_capacity(Tensor choices, std::size_t experts, std::size_t most);
Tensor count_choices(const Tensor& choices, std::size_t experts);  // (E, 1)

struct Copies {
  std::size_t slots = 0;
  std::vector<std::size_t> token;  // the token that each row is a copy of
  std::vector<std::size_t> row;    // the row of token t's copy in slot j: row[t slots + j]
  std::vector<std::size_t> begin;  // first row of each expert, and the end of the last
  std::size_t rows() const { return token.size(); }
  bool dropped(std::size_t r) const { return r >= begin.back(); }
};
Copies copies_of(const Tensor& choices, std::size_t experts);

Tensor copy_tokens(const Tensor& x, const Copies& copies);  // (T k, D)

// Sums the rows of `tokens` tokens from `first` on, whose probabilities, choices and gradients are
// given, each row times its probability, or as it is.                               // (tokens, D)
Tensor weigh_rows(const Tensor& rows, const Copies& copies, const Tensor& p, const Tensor& choices,
                  std::size_t first);
Tensor add_rows(const Tensor& rows, const Copies& copies, std::size_t first, std::size_t tokens);
// Gradient of each probability.                                                 // (tokens, E)
Tensor weight_gradient(const Tensor& dy, const Tensor& rows, const Copies& copies,
                       const Tensor& choices, std::size_t experts, std::size_t first);
// Gradient of each row, from all tokens.                                        // (T k, D)
Tensor spread_gradient(const Tensor& dy, const Tensor& p, const Tensor& choices,
                       const Copies& copies);

// p (g - sum p g + 2 z lse) with g = dp + balance count, both losses times loss_scale. // (T, E)
Tensor rating_gradient(const Ratings& ratings, const Tensor& dp, const Tensor& count,
                       double balance, double z, float loss_scale);

}  // namespace plumb::kernels
