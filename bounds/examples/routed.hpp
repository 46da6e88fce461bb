// bounds/examples/routed.hpp: calls of the operations of a mixture of experts.
#pragma once

#include "bounds/examples/example.hpp"
#include "bounds/sees.hpp"

namespace plumb::bounds {

class Maker;

bool is_routed(std::string_view id);
// Adds random tokens, experts and choices; inputs are numbers of `in` where they are not the
// router's.
void routed(Example& e, Draw& draw, const Format& in);
// Adds ROWS tokens of COLUMNS and four experts, or as many experts as columns for the router's own
// operations; two experts take each token.
void routed(Maker& m, Example& e);

}  // namespace plumb::bounds
