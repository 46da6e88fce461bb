// model/layers/grouped.hpp: one linear layer of all experts at once: each multiplies its own rows.
//
//   columns   W_e sliced by columns: x (T k, D)      -> y (T k, F / tp)
//   rows      W_e sliced by rows:    x (T k, F / tp) -> y (T k, D), summed over the ranks
// x are operands of products (model/layers/operand.hpp), dy are not yet.
#pragma once

#include "kernels/experts.hpp"
#include "model/layers/operand.hpp"

namespace plumb {

struct Grouped {
  const std::string& mlp;
  const char* which;  // fc1 or fc2
  const Copies& copies;

  std::string name() const { return mlp + ".experts." + which; }
  std::string of(std::size_t e) const {
    return expert_name(mlp, static_cast<int>(e)) + "." + which;
  }
  std::size_t experts() const { return copies.begin.size() - 1; }
};

Tensor grouped_columns(Rank& rank, const Grouped& layer, const Operand& x);
Tensor grouped_columns_backward(Rank& rank, const Grouped& layer, const Operand& x,
                                const Tensor& dy);

Tensor grouped_rows(Rank& rank, const Grouped& layer, const Operand& x);
Tensor grouped_rows_backward(Rank& rank, const Grouped& layer, const Operand& x, const Tensor& dy);

}  // namespace plumb
