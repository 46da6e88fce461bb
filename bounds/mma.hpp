// bounds/mma.hpp: how far a product of a matrix unit may be from the exact one.
//
//   |C_ij - (A B)_ij| <= worst_ij        A (M, K)   B (K, N)
//
// Running bound over the steps of a sum (theory.md T3, T6; [FHMP21] for the arithmetic): of units
// that align their addends, with S_j the exact prefix sum after step j, d_j the bound so far, F the
// unit's grid and M its kept bits,
//   E_j   = largest exponent of the step's products and of |S_(j-1)| + d_(j-1)
//   d_j   = d_(j-1) + (addends that the grid 2^(E_j - F) may cut) 2^(E_j - F)
//                   + 2^(e - M), e the exponent of |S_j| + d_j so far, where the result may be cut
// (half of it where it is rounded to nearest) and per promotion u (|sum so far| + its bound) +
// 2^-150, in FP32, nearest even. Prefix sums are FP64, and what they drop (TwoSum) enters d_j, so
// that exponents are those of exact sums. So truncation, whose errors all point one way, is covered
// as it is: no mean of zero is assumed.
//
// Mean and variance (theory.md T4): products are known, and so is what the grid cuts from them, a
// bias. Only where the sum, by its deviation so far, may lie on either side of a power of two, the
// grid is one or the other: with probability p the bias is another by D, and the variance
// p (1 - p) D^2. Of the sum the last bits are unknown: a multiple of g, cut toward zero to a
// multiple of h, loses
//   (h - g) / 2   in the mean and varies by (h^2 - g^2) / 12     if the bits that go are uniform
//   h / 2         and (h^2 - 4 g^2) / 12                         if it is an odd multiple of g: its
//                 products end at g, and what they are added to does not
// Rounded to nearest, what is added to a multiple of h loses what it would lose alone: a bias; else
// bounds/proof/grid.hpp has the variance. Energy takes h^2 for each cut, four times what a variable
// of width h needs [Hoe63]. Only roundings to nearest stagnate: those of small addends are drift.
// Of units that pair or cut down (Mma::foretold) bias, variance, energy and drift mean nothing.
//
// ASSUMES  values are finite. Where a sum may leave its format's range, worst is infinite.
// COSTS    a handful of operations a product, several times the FP64 product.
// TESTED   tests/kernels/mma_test.cpp, tests/kernels/oracle_test.cpp
// SOURCES  theory.md T2, T3, T4, T6; bounds/SOURCES.md [MMA-Sim] [FHMP21] [Hoe63]
#pragma once

#include <string>

#include "bounds/machine.hpp"
#include "bounds/ordered.hpp"
#include "bounds/sees.hpp"

namespace plumb::bounds {

// What is asked of a sum: `worst` is all that a worst case needs, in a third of the time; bias and
// variance are 0 then.
enum class Asked { worst, all };

// Throws std::invalid_argument if the inner sizes differ or the unit is none (Mma::check).
SumErrors mma_errors(View<double> a, View<double> b, const Mma& unit, Asked asked = Asked::all);
// The same of codes a and b that a unit scales: by powers of two, a (M, K / unit.block) and
// b (K / unit.block, N). A code's exponent is that of the code and of its scale.
struct BlockScales {
  View<double> a, b;
};
SumErrors mma_errors(View<double> a, View<double> b, const BlockScales& scales, const Mma& unit,
                     Asked asked = Asked::all);
// What its worst case adds up, in words.
std::string words_of(const Mma& unit);

}  // namespace plumb::bounds
