// trace/together.hpp: the gradients of all weights as one vector, and its length. What scales all of them
// alike (a norm for clipping that counts too much, a mean over too many words) hides in the noise of each
// tensor, and not in that of all. Gradients behind a clip are another such vector: its length is the
// limit, and tells by which norm they were clipped.
//
//   s      sqrt(sum_i |x_i|^2 / sum_i |r_i|^2) - 1      over gradients i of a run x and the reference r
//   s0^2   mean of the K twins' s^2
//   p      P(|Student of K degrees| >= |s| / s0)
//
// ASSUMES  twins lie about the reference. Where it is one draw among them, p is the larger
// COSTS    nothing: |x|^2 = |r|^2 (1 + 2 scale) + norm^2 of each tensor's statistics
// TESTED   tests/trace/together_test.cpp
// SOURCES  twins.md S4
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "trace/sees.hpp"
#include "trace/spreads.hpp"

namespace plumb::trace {

struct Together {
  double longer = 0;    // s of the candidate
  double allowed = 0;   // at the chance that was asked for
  double p = 1;         // chance of so much in a healthy run
  std::string largest;  // the gradient with the largest norm
  bool clipped = false;
};

// Nothing, where three twins do not move them. A tensor that no twin moves counts as one that they leave.
std::optional<Together> gradients_together(const std::vector<Measured>& all, double chance,
                                           bool clipped = false);
// Are there gradients behind a clip?
bool has_clipped(const std::vector<Measured>& all);

// Gradients of weights that differ by one slope on the reference's: somebody multiplied all of them.
struct CommonSlope {
  double slope = 0;
  std::size_t near = 0, found = 0;  // of those that are found: by that slope, to a tenth of it; all
  std::vector<std::string> others;  // found by another slope
  bool before_clip = false;         // are they traced before a clip?
};

// Of the gradients in `found`, if three or more, and most of them, have one.
std::optional<CommonSlope> common_slope(const std::vector<Measured>& all,
                                        const std::set<std::string>& found);
std::string in_words(const CommonSlope& common);

}  // namespace plumb::trace
