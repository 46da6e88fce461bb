// model/layers/operand.hpp: the copy of a tensor that products take.
//
//   scaled per tensor   the largest magnitude over all ranks that hold a piece sets a power of two
//   scaled by history   the largest magnitudes of the last steps set it; this step's joins them
//   scaled by blocks    each rank scales the blocks of its piece, beginning with its first element
//   no operand casts    the tensor as it is
//
// TESTED   tests/model/one_rank_test.cpp, tests/trace/replay_test.cpp, tests/model/recipe_test.cpp
#pragma once

#include <optional>

#include "model/rank/rank.hpp"
#include "model/sees.hpp"

namespace plumb::model {

// Blocks that are not square lie differently for products that sum over the rows: a second copy.
struct Operand {
  Tensor of_columns;
  std::optional<Tensor> of_rows;  // where it is not the same

  const Tensor& by_columns() const { return of_columns; }
  const Tensor& by_rows() const { return of_rows ? *of_rows : of_columns; }
};

// Returns the input of the layer of that name, or the gradient of its output, as products take it.
// Recorded as m<micro-batch>/<name>/operand or grad_operand, ..._t for a second copy, and their
// ..._scale.
Operand input_operand(Rank& rank, const std::string& name, Tensor x, Sharding sharding);
Operand gradient_operand(Rank& rank, const std::string& name, Tensor dy, Sharding sharding);

// Makes rank.factor() of every weight that a product takes, and scales from histories. Once a step.
void weight_operands(Rank& rank);
// Keeps this step's largest magnitudes for delayed scaling.
void keep_histories(Rank& rank);

}  // namespace plumb::model
