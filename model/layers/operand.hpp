// model/layers/operand.hpp: what products see of a tensor.
//
// Scaled per tensor, the largest magnitude over all ranks that hold a piece sets one power of two.
// Scaled by history, that of the last steps did, and this step's goes into the history.
// Scaled by blocks, each rank scales the blocks of its piece, beginning with its first element.
// Recipes without operand casts: the tensor as it is.
#pragma once

#include <optional>

#include "model/rank.hpp"

namespace plumb {

// Blocks that are not square lie otherwise for products that sum over the rows: a second copy.
struct Operand {
  Tensor of_columns;
  std::optional<Tensor> of_rows;  // where it is not the same

  const Tensor& by_columns() const { return of_columns; }
  const Tensor& by_rows() const { return of_rows ? *of_rows : of_columns; }
};

// The input of the layer of that name, and the gradient of its output. Recorded as
// m<micro-batch>/<name>/operand or grad_operand, ..._t for a second copy, and their ..._scale.
Operand input_operand(Rank& rank, const std::string& name, Tensor x, Held held);
Operand gradient_operand(Rank& rank, const std::string& name, Tensor dy, Held held);

// Makes rank.factor() of every weight that a product takes, and scales from histories. Once a step.
void weight_operands(Rank& rank);
// What delayed scaling keeps of this step for the next ones.
void keep_histories(Rank& rank);

}  // namespace plumb
