// model/estimate/dry.hpp: a layout seen from shapes alone, beside its traffic
// (model/estimate/traffic.hpp): which ranks to look at, which part of each tensor they hold, and
// how far the sums that ranks share lie from the true ones.
//
// COSTS    a product of 8 x terms x 8 and its bounds for each shared sum; nothing grows with ranks.
// TESTED   tests/model/dry_test.cpp
#pragma once

#include <string>
#include <vector>

#include "model/sees.hpp"
#include "model/spec/config.hpp"
#include "model/spec/layout.hpp"
#include "model/spec/recipe.hpp"

namespace plumb::model {

// Returns one rank of the first stage, one of a middle stage and one of the last.
std::vector<int> ranks_to_look_at(const Layout& layout);

// The shape of a tensor and of the part of it that a rank holds.
struct PlacedShape {
  std::string tensor;  // one line for all layers and experts, if they have it alike
  int rows, cols, own_rows, own_cols;
  std::string sliced;  // rows, columns, tokens or no
};
// Returns the parameters, and the residual stream of a micro-batch.
std::vector<PlacedShape> placed_shapes(const Config& config, const Layout& layout);

// The largest standard deviation and the largest bound of some results, over the results' RMS.
struct Spread {
  double deviation = 0, bound = 0;
};

// A sum to which each of several ranks contributes a part.
struct SharedSum {
  std::string what;
  int terms, parts;
  Format wire, output;
  Spread on_one_rank, here;
};

inline constexpr int most_terms = 1 << 18;  // longer sums are looked at up to here

// Returns such sums as bounds/ derives them for standard normal numbers of the recipe's format.
std::vector<SharedSum> shared_sums(const Config& config, const Recipe& recipe,
                                   const Layout& layout);

}  // namespace plumb::model
