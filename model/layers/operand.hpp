// model/layers/operand.hpp: what products see of a tensor under recipes with short operands.
//
// The tensor's largest magnitude, over all ranks that hold a piece of it, sets one power of two;
// the scaled tensor is cast to the short format. Recipes without: the tensor as it is.
#pragma once

#include "model/rank.hpp"

namespace plumb {

// Recorded as m<micro-batch>/<name> and <name>_scale.
Tensor operand(Rank& rank, const std::string& name, Tensor x, Held held,
               const std::optional<Format>& to);

// Makes rank.factor() of every weight that a product takes. Once a step.
void weight_operands(Rank& rank);

}  // namespace plumb
