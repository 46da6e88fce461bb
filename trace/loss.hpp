// trace/loss.hpp: the gradient that a cross entropy hands to its logits, judged by these logits alone.
//
//   g_tv = w (p_tv - [v = l_t]),  p_t the softmax of x_t        x, g (T, V); rows of zeros do not count
//
// Nobody has to say that this is the loss, what its labels l are, or its weight w. The label is where a
// row of g is smallest; where that is zero, at the largest logit. Each element leaves an interval of w,
//
//   |g - w q| <= w (a + 4 u |q|) + ulp(g) / 2        q = p - [v = l], u of FP32
//
// with a the bound of p as softmax makes it, or as cross_entropy_grad does of a sum's logarithm,
// whichever is larger; 4: the difference, a mask, the weight and a scale are rounded. No w in all of
// them: g is not that of these logits. What it says of labels and of the weight is nothing: twins judge
// both.
//
// The logits are those of the module that gets the first gradient of a micro-batch. The reference tells
// whether the loss is a cross entropy; where its own gradient leaves no w, nothing is judged. It may leave
// one by chance: a candidate is accused from 1 + 2 ln(1 / level) / rows times its tolerance on.
//
// ASSUMES  the loss and its gradient are computed in FP32, and rounded once to the format of g
// COSTS    four bounds of each logit, of some hundred rows at a time, once for each run
// TESTED   tests/trace/loss_test.cpp
// SOURCES  twins.md G4
#pragma once

#include <cmath>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "trace/about.hpp"
#include "trace/finding.hpp"
#include "trace/hands.hpp"
#include "trace/merge.hpp"
#include "trace/replay.hpp"
#include "trace/sees.hpp"

namespace plumb::trace {

// An element, and how it bounds the weight: |g - w q| <= w bound + half.
struct OfLoss {
  Finding::At at = {};
  double g = 0, q = 0, bound = 0, half = 0;
  double tolerance(double w) const { return w * bound + half; }
  double ratio(double w) const { return std::fabs(g - w * q) / tolerance(w); }
};

// How well a gradient fits its logits.
struct LossFit {
  std::size_t rows = 0;  // that count
  // The weights that all elements allow: none where least > most.
  double least = 0, most = infinite;
  OfLoss asks_least = {}, asks_most = {};  // allow no less, and no more
  std::string refused = {};                // why there is no bound; empty: there is one
  bool fits() const { return rows > 0 && least <= most; }
  // The weight at which those two are equally far off, where none fits.
  double nearest() const;
};

// Both of one shape. Rows with a logit or a gradient that is not finite are left out.
LossFit fit_of_loss(const Whole& logits, const Whole& gradient, const ReplayOptions& options);

// "m0/head/grad_out" -> "m0/head/out"; of other ids empty.
std::string logits_of_gradient(const std::string& id);

// Two ids of one module and micro-batch.
struct Logits {
  std::string out, gradient;
  bool operator==(const Logits&) const = default;
};
// One pair a micro-batch, as the reference's producer tells the order of execution.
std::vector<Logits> logits_of(const Run& reference, const Abouts& about);

struct LossesSeen {
  std::vector<Finding> findings;        // statistic "replay", of the gradient
  std::vector<std::string> fit;         // gradients that fit
  std::vector<std::string> of_no_loss;  // of which the reference's own fits no weight
  std::vector<NotJudged> not_judged;    // where a card has no bound
};

// `wanted` says which gradients are looked at.
LossesSeen losses(const Run& reference, const Abouts& about, const Run& candidate,
                  const std::function<bool(const std::string&)>& wanted,
                  const ReplayOptions& options, const Hands& hands);

}  // namespace plumb::trace
