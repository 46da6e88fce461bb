// bounds/proof/certified.hpp: matrix products with a proof of how exact they are.
//
//   |value_ij - (A B)_ij| <= bound(i, j)     A (M, K)   B (K, N): numbers of 24 bits or fewer
//
// First in FP64, block by block, asking the processor whether anything was rounded: products of
// such numbers are exact, and so is the sum if no addition was. Then bound is zero: that is how
// most products of BF16, FP16 and FP8 numbers end. What was rounded is done again, tile by tile and
// then with twice the bits: a sum h held in one binade, 2^k > 2 |a_i| |b_j| (2-norms), so that
//   t = fma(a, b, h),  q = t - h exactly,  l += fma(a, b, -q), exact before it is added,  h = t
// and h + l is off by at most n^2 2^-103 |a_i| |b_j|; rounding it to FP64 adds 2^-53 of itself.
// Each element depends on its row, its column and K only: any slicing gives the same bits.
//
// REFUSES  Throws std::invalid_argument if the inner sizes differ, std::domain_error if an element
//          is not finite or has more than 24 bits.
// COSTS    one FP64 product where all is exact; up to seven times as much where nothing is.
// TESTED   tests/bounds/proof/certified_test.cpp; tests/bench/reference.cpp against MPFR and Arb
#pragma once

#include "bounds/sees.hpp"
#include "number/product.hpp"

namespace plumb::bounds {

struct Certified {
  Matrix<double> value;
  Matrix<double> bounds{};  // empty where all elements are exact
  double exact = 1;         // share of elements proven exact

  double bound(std::size_t i, std::size_t j) const { return bounds.size() > 0 ? bounds(i, j) : 0; }
};

Certified certified_product(View<double> a, View<double> b);

// The same without the attempt in FP64: for inputs known to be wide, and for tests.
Certified doubled_product(View<double> a, View<double> b);

}  // namespace plumb::bounds
