// bounds/examples/routed.hpp: calls of the operations of a mixture of experts.
#pragma once

#include "bounds/examples/example.hpp"

namespace plumb {

class Maker;

bool is_routed(std::string_view id);
// Random tokens, experts and choices; inputs in `in` where they are not the router's.
void routed(Example& e, Draw& draw, const Format& in);
// ROWS tokens of COLUMNS: four experts, or as many as columns for the router's own operations; two
// of them take each token.
void routed(Maker& m, Example& e);

}  // namespace plumb
