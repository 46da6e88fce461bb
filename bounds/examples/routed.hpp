// bounds/examples/routed.hpp: calls of the operations of a mixture of experts.
#pragma once

#include <string_view>

#include "bounds/examples/maker.hpp"
#include "bounds/examples/random.hpp"
#include "bounds/sees.hpp"

namespace plumb::bounds {

// The inputs of such an operation, in order, by letter:
//   l logits   p probabilities   g their gradients   n counts   s one number a token
//   o one number an expert   c unequal counts   x tokens   r rows of experts
//   h rows of another width   i ids   w an expert's matrices
// and where the draw says so
//   b biases   v a bias of the logits   f a factor of the loss
struct Routed {
  std::string_view inputs;
  bool parted = false;   // has sums that ranks share
  bool chained = false;  // has products whose chains may be cut
  bool drops = true;     // copies may have been dropped before
  bool as_many = false;  // by shape: as many experts as columns, else four
};

// Adds random tokens, experts and choices; inputs are numbers of the call's format where they are
// not the router's.
void routed(RandomCall& c, const Routed& with);
// Adds ROWS tokens of COLUMNS; two experts take each token.
void routed(Maker& m, const Routed& with);

}  // namespace plumb::bounds
