// bounds/ordered.hpp: how far a product is from the exact one where the order of its sums is known.
//
//   worst      |C_ij - (A B)_ij| <= worst_ij, always
//   energy     E, and
//   drift      D: the error exceeds |bias| + D + lambda sqrt(E) with probability <=
//              2 exp(-lambda^2 / 2) [HI23]; D is what stagnation may add up to
//   bias       mean error, and
//   variance   about it
//
// The exact partial sums are walked in the order of the evaluation. At a step to the exact sum s,
// with d the errors so far and g a power of two of which both operands are multiples:
//   h = FP32's spacing at |s| + d
//   h <= g   the step is exact: nothing can be lost that is not there
//   h >  g   d grows by h/2 (nearest) or h (toward zero, stochastic), E by the square of that
// and afterwards g is the larger of itself and the spacing at |s| - d; of an exact sum, its own
// last bit. So products of short numbers, which many FP32 sums hold exactly, cost nothing until
// they do. What FP64 drops from s (TwoSum) enters d.
//
// Where what is added to a number of FP32 is below 4 h, roundings depend on each other (theory.md
// P8): a small number vanishes each time it is added. There, unless roundings are stochastic,
//   d and D   grow by the smaller of h/2 and what is added (nearest), or by h (toward zero)
//   bias      falls by what is added, if that vanishes: below h/2 (nearest), or below h and of the
//             sum's sign (toward zero); else by sign(s) h/2 toward zero, and the variance grows by
//             h^2/12 in both modes. Away from zero signs are the other way, and what is below h and
//             of the sum's sign counts as a whole h
//
// Elsewhere, for bias and variance, what is lost is uniform over the multiples of g, or over the
// odd ones where an exact operand has a last bit at g that the other has not:
// bounds/proof/grid.hpp. Toward zero the bias is -sign(s) (h - g)/2, odd -sign(s) h/2; away from zero
// the opposite.
//
// ASSUMES  energy: each rounding has mean zero given the earlier ones; bias, variance: the above.
//          Both fail for data that repeat; the caller has to ask.
// REFUSES  nothing: where a sum may leave FP32's range, worst is infinite.
// COSTS    some tens of FP64 operations a product.
// TESTED   tests/kernels/ordered_test.cpp
// SOURCES  theory.md D3, P4, P5, P7, P8; bounds/SOURCES.md [HI23]
#pragma once

#include "bounds/sees.hpp"
#include "number/order.hpp"
#include "number/product.hpp"

namespace plumb::bounds {

struct SumErrors {
  // (M, N) each. `sum` is the FP64 sum from which the errors are counted; worst covers that it is
  // not exact.
  Matrix<double> sum, worst, energy, drift, bias, variance;
  bool flushed =
      false;  // may something be lost to flushed subnormals? Bias and variance have none of it

  // The bound that element e exceeds with probability <= 2 exp(-lambda^2 / 2).
  double likely(std::size_t e, double lambda) const;
};

// A (M, K), B (K, N): numbers of FP32 or shorter, finite.
// Throws std::invalid_argument if the inner sizes differ.
SumErrors errors_in_order(View<double> a, View<double> b, const Order& order);

}  // namespace plumb::bounds
