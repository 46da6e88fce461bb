// trace/clip.hpp: gradients as an optimizer gets them (X/clipped_grad), judged by those before (X/grad).
//
//   y_i = c x_i        of all elements of all gradients x: clipping by their norm has one factor c
//
// Nobody has to say the limit, or c. Each element leaves an interval of c, as wide as y is rounded:
//
//   |y - c x| <= ulp(y) / 2 + u |y|        u of FP32, in which kernels multiply before they round
//
// A gradient that does not allow the factor that most allow was not clipped with the others. Whether
// all are clipped by one factor the reference says: where its own are not (each value by itself, each
// layer by its own norm), nobody is judged. Of the factor's size nothing is said: twins judge that.
//
// COSTS    a pass over the gradients of both runs
// TESTED   tests/trace/clip_test.cpp
// SOURCES  twins.md G5
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trace/finding.hpp"
#include "trace/hands.hpp"
#include "trace/merge.hpp"
#include "trace/sees.hpp"

namespace plumb::trace {

// The factors that all elements of a gradient allow: none where least > most.
struct Scaled {
  double least = 0, most = infinite;
  Finding::At asks_least = {}, asks_most = {};  // the elements that allow no less, and no more
  bool fits() const { return least <= most; }
  bool allows(double factor) const { return least <= factor && factor <= most; }
};

// Elements that are not finite are left out.
Scaled scaled(const Whole& before, const Whole& after);

// Has the run this gradient before a clip alone, and others behind it?
bool was_not_clipped(const Run& run, const std::string& id);

// What to do where ranks disagree on gradients before a clip and agree behind it; empty: they do not.
std::string said_too_early(const std::vector<Finding>& findings);

struct ClipSeen {
  std::vector<Finding> findings;  // statistic "replay", of gradients behind the clip
  std::string note;               // what was found right, or was not judged and why
};

// Judges the gradients of all weights that both runs have before and behind. `wanted` says of which
// findings are told; nothing is seen where none is wanted.
ClipSeen clips(const Run& reference, const Run& candidate,
               const std::function<bool(const std::string&)>& wanted, const Hands& hands);

}  // namespace plumb::trace
