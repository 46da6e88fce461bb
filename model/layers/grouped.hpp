// model/layers/grouped.hpp: one linear layer of the experts of this rank: each multiplies its rows.
//
//   columns   W_e sliced by columns: x (N, D)      -> y (N, F / tp)
//   rows      W_e sliced by rows:    x (N, F / tp) -> y (N, D), summed over the ranks
// N rows, by expert. x are operands of products (model/layers/operand.hpp); dy are not cast yet.
//
// TESTED   tests/model/one_rank_test.cpp, tests/trace/replay_test.cpp
#pragma once

#include "model/layers/operand.hpp"
#include "model/sees.hpp"

namespace plumb::model {

struct Grouped {
  const std::string& mlp;
  const char* which;                      // fc1 or fc2
  std::size_t first_expert;               // of this rank's
  const std::vector<std::size_t>& begin;  // of each expert's rows, and the end of the last

  std::string name() const { return mlp + ".experts." + which; }
  std::string of(std::size_t e) const {
    return expert_name(mlp, static_cast<int>(first_expert + e)) + "." + which;
  }
  std::size_t experts() const { return begin.size() - 1; }
};

// How activations between both layers lie: in columns of tensor-parallel ranks, but of experts that
// are whole (layout etp1), whose layers sum over no ranks.
inline Sharding within_experts(const Rank& rank) {
  return rank.l.whole_experts ? Sharding::copies : Sharding::copy_columns;
}

Tensor grouped_columns(Rank& rank, const Grouped& layer, const Operand& x);
Tensor grouped_columns_backward(Rank& rank, const Grouped& layer, const Operand& x,
                                const Tensor& dy);

Tensor grouped_rows(Rank& rank, const Grouped& layer, const Operand& x);
Tensor grouped_rows_backward(Rank& rank, const Grouped& layer, const Operand& x, const Tensor& dy);

}  // namespace plumb::model
