// bounds/mma_any.hpp: how far a matrix unit's sum may be from the exact one where nobody says how a
// kernel arranges the steps (theory.md T7): a library splits K among blocks, keeps several sums,
// takes an instruction of half as many terms, and lets FP32 add what it has.
//
//   the products of one element: n of them, A = sum |p|, all multiples of g
//   N = ceil(2 n / terms) + s steps, s = max(1, floor(n / terms)) sums, s - 1 additions in FP32
//   X = exponent of A + d, at least that of the unit's zero
//   d = (products that 2^(X - F) may cut + N) 2^(X - F) + N 2^(X - M) + (s - 1) 2^(X - 23)
//
// where each of the three is 0 if its spacing is no coarser than g: then nothing can be lost.
//
// ASSUMES  an aligned unit with sums in FP32; each sum's steps but one take half of the terms at
//          least; sums have `terms` products at least, or there is one; FP32 rounds or truncates
// COSTS    two FP64 operations a product
// TESTED   tests/kernels/mma_any_test.cpp
// SOURCES  theory.md T7
#pragma once

#include "bounds/mma_step.hpp"
#include "bounds/sees.hpp"

namespace plumb::bounds {

struct AnySteps {
  double exact, worst;  // infinite where a sum may leave FP32's range
};

// Of n products a[k] b[k], with where their bits lie.
AnySteps in_any_steps(const double* a, const Reach* of_a, const double* b, const Reach* of_b,
                      std::size_t n, const Mma& unit);

}  // namespace plumb::bounds
