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
// layer by its own norm), nobody is judged.
//
// Where one factor fits, its size is judged by the norm |x| of all gradients: c |x| is the limit L in all
// runs. Each run k leaves an interval of ln L, as wide as that of its c and as the norm is rounded. Whether
// it is a norm of these gradients alone, in FP32, reference and twins say:
//
//   ln c_k + ln |x_k| = ln L + q ln(|x_k| / |r|)        0 <= q <= 1, |r| of the reference
//
// has q = 0 then; 1 where c is a constant, or the norm is rounded to a short format; something between
// where other gradients count, too. Only if these runs allow some q, but not 1, the candidate has to fit
// them with one q and L. (Of gradients in FP16 nothing is said: a norm in FP16 has steps so small that
// twins hardly tell it from one in FP32.)
//
// ASSUMES  squares of a gradient are added up in FP32 by eight partial sums or more, as vector
//          instructions do, each of which grows evenly
// COSTS    a pass over the gradients of each run
// TESTED   tests/trace/clip_test.cpp
// SOURCES  twins.md G5; c = L / (|x| + e), e of 1e-6 in PyTorch 2.15 and megatron-core 0.16.1, here at most
#pragma once

#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "trace/finding.hpp"
#include "trace/hands.hpp"
#include "trace/merge.hpp"
#include "trace/sees.hpp"

namespace plumb::trace {

// The factors that all elements of a gradient allow: none where least > most. And its size, before.
struct Scaled {
  double least = 0, most = infinite;
  double squares = 0;                           // their sum
  std::size_t size = 0;                         // how many
  Finding::At asks_least = {}, asks_most = {};  // the elements that allow no less, and no more
  bool fits() const { return least <= most; }
  bool allows(double factor) const { return least <= factor && factor <= most; }
};

// Elements that are not finite are left out; the sum of squares is not finite then.
Scaled scaled(const Whole& before, const Whole& after);

// "head.weight/clipped_grad" -> "head.weight/grad"; of other ids empty.
std::string name_before_clip(const std::string& id);

// Has the run this gradient before a clip alone, and others behind it?
bool was_not_clipped(const Run& run, const std::string& id);

// What to do where ranks disagree on gradients before a clip and agree behind it; empty: they do not.
std::string said_too_early(const std::vector<Finding>& findings, const Run& candidate);

struct ClipSeen {
  std::vector<Finding> findings;  // statistic "replay", of gradients behind the clip
  std::string note;               // what was found right, or was not judged and why
  bool judged = false;            // by those before the clip
};

// Judges the gradients of all weights that both runs have before and behind. `twins`: of the reference,
// without which the factor's size is not judged; `all`: are these all gradients that were clipped? `summands`:
// tensors of which ranks hold summands, each of which was rounded behind the clip: these are not judged.
// `wanted` says of which findings are told; nothing is seen where none is wanted.
ClipSeen clips(const Run& reference, const Run& candidate, const std::vector<Run>& twins, bool all,
               const std::set<std::string>& summands,
               const std::function<bool(const std::string&)>& wanted, const Hands& hands);

}  // namespace plumb::trace
