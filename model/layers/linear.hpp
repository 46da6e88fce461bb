// model/layers/linear.hpp: column- and row-parallel linear layers, y = x W + b.
//
//   column   W sliced by columns: x (T, D) whole -> y (T, F / tp)
//   row      W sliced by rows:    x (T, F / tp)  -> y (T, D), summed over the ranks; under sequence
//            parallelism each rank keeps its (T / tp, D)
//   whole    W not sliced, by every rank
//
// TESTED   tests/model/one_rank_test.cpp, tests/trace/replay_test.cpp
#pragma once

#include "model/layers/operand.hpp"
#include "model/sees.hpp"

namespace plumb::model {

// Sums the ranks' parts of an activation on the wire; returns this rank's tokens, unrounded. `ran`
// is set to the evaluation that ran.
Tensor summed_over_ranks(Rank& rank, Tensor part, const Format& wire, Evaluation& ran);
// Returns all tokens of a tensor in the residual stream.                                // (T, D)
Tensor all_tokens(Rank& rank, Tensor x);

// The input of a column-parallel layer, as its product takes it, from all tokens.
Operand column_operand(Rank& rank, const std::string& name, Tensor all);

Tensor column_forward(Rank& rank, const std::string& name, const Operand& x);
// The same from this rank's tokens of the residual stream: gathers them first or, where transfers
// overlap and nothing is cast, multiplies the rows that are there while others come. `saved` gets the
// operand, and `all` all tokens, if there is an adapter beside it.
Tensor gathering_column_forward(Rank& rank, const std::string& name, Tensor x, Operand& saved,
                                Tensor& all);
// dy is not cast yet.
// Returns dx for this rank's tokens of the residual stream.
Tensor column_backward(Rank& rank, const std::string& name, const Operand& x, Tensor dy);

// W is whole: every rank multiplies all tokens alike, and returns its own of the stream.
Tensor whole_forward(Rank& rank, const std::string& name, const Operand& x);
Tensor whole_backward(Rank& rank, const std::string& name, const Operand& x, const Tensor& dy);

Tensor row_forward(Rank& rank, const std::string& name, const Operand& x);
// dy: this rank's tokens. Returns dx (T, F / tp).
Tensor row_backward(Rank& rank, const std::string& name, const Operand& x, Tensor dy);

}  // namespace plumb::model
