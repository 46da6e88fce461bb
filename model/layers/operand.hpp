// model/layers/operand.hpp: what products see of a tensor under recipes with short operands.
//
// Scaled per tensor, the largest magnitude over all ranks that hold a piece sets one power of two.
// Recipes without operand casts: the tensor as it is.
#pragma once

#include "model/rank.hpp"

namespace plumb {

// The input of the layer of that name, and the gradient of its output. Recorded as
// m<micro-batch>/<name>/operand or grad_operand, and ..._scale.
Tensor input_operand(Rank& rank, const std::string& name, Tensor x, Held held);
Tensor gradient_operand(Rank& rank, const std::string& name, Tensor dy, Held held);

// Makes rank.factor() of every weight that a product takes. Once a step.
void weight_operands(Rank& rank);

}  // namespace plumb
