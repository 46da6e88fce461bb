// model/layers/experts.hpp: a mixture of experts in place of an MLP: router, copies of the tokens
// to their experts, and their weighed sum; beside them, perhaps, a shared expert that takes all.
//
//   x, y, dy, dx: this rank's tokens of the stream. Each tensor-parallel rank holds a slice of
//   every expert that is here, as of an MLP, and all rows of these; each context-parallel rank the
//   rows of its own tokens.
// Over expert-parallel ranks the copies of each rank's micro-batch travel to the ranks that have
// their experts, and the experts' results travel back. There they stay apart by micro-batch.
//
// TESTED   tests/model/one_rank_test.cpp, tests/trace/replay_test.cpp
#pragma once

#include "model/layers/mlp.hpp"
#include "model/layers/router.hpp"
#include "model/sees.hpp"

namespace plumb::model {

// The rows that the experts here take of one rank's micro-batch.     N rows of its T k, by expert
struct Visit {
  std::vector<std::size_t> places;    // of the rows, among all T k
  std::vector<std::size_t> of_ranks;  // rows of each expert-parallel rank, context by context
  std::vector<std::size_t> begin;  // first row of each expert, and the end of the last; then zeros
  Operand rows;                    // input of fc1                            // (N, D)
  Tensor fc1;                      // (N, H / tp)
  Operand act;                     // input of fc2                            // (N, H / tp)
};

struct Experts {
  Routed routed;
  std::vector<Visit> visits;  // by the expert-parallel rank that they come from
  Tensor fc2;                 // of this context's tokens                          // (T k / cp, D)
  Mlp shared;
};

Tensor experts_layer(Rank& rank, const std::string& name, const Tensor& x, Experts& saved);
Tensor experts_backward(Rank& rank, const std::string& name, const Experts& saved,
                        const Tensor& dy);

}  // namespace plumb::model
