// bounds/mma.hpp: how far a product of a truncating matrix unit may be from the exact one.
//
//   |C_ij - (A B)_ij| <= bound_ij        A (M, K)   B (K, N)
//
// Running bound over the steps of a sum (theory.md T3, [FHMP21] for the arithmetic): with S_j the
// exact prefix sum after step j and d_j the bound so far,
//   E_j  = largest exponent of the step's products and of |S_(j-1)| + d_(j-1)
//   d_j  = d_(j-1) + (addends that the grid 2^(E_j - F) may cut) 2^(E_j - F)
//                  + 2^(e - M), e the exponent of |S_j| + d_j so far, where the result may be cut
// and per promotion u (|sum so far| + its bound), all of it nearest even in FP32. Prefix sums are
// FP64, and what they drop (TwoSum) enters d_j, so that exponents are those of exact sums.
// So truncation, whose errors all point one way, is covered as it is: no mean of zero is assumed.
//
// REFUSES  values must be finite, and no sum may overflow FP32; both are the caller's to see to.
// COSTS    a handful of operations a product, several times the FP64 product.
// TESTED   tests/kernels/mma_test.cpp
#pragma once

#include "bounds/machine.hpp"
#include "bounds/number/product.hpp"
#include "bounds/operation.hpp"

namespace plumb {

// Throws std::invalid_argument if the inner sizes differ or the unit is none (Mma::check).
Matrix<double> mma_bound(View<double> a, View<double> b, const Mma& unit);

// The tolerance of an operation on a machine: its own where the machine rounds to nearest,
// mma_bound and the cast for a product whose inputs are numbers of `input`. Refuses everything else
// by name: what assumes nearest rounding does not hold where sums are cut.
Outcome<Tolerance> tolerance_on(const Machine& machine, const Operation& operation,
                                const ToleranceCall& call, const Format& input);

}  // namespace plumb
