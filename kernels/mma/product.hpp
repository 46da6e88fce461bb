// kernels/mma/product.hpp: matrix products as a matrix unit computes them, bit for bit.
//
//   C = A B        A (M, K)   B (K, N)   C (M, N), of unit.input by unit.second_input(); C: FP32
//
// K is taken in steps of unit.terms, in rising order, each as number/mma.hpp says (theory.md T2,
// T6), in integers; only promotion adds FP32 numbers, and paired units do. A sum beyond the
// accumulator's largest number is infinite and stays so; a product beyond FP32 is not.
//
// NOT FOR  proofs: bounds/mma.hpp bounds the errors of such a unit, and shares no line with this.
// COSTS    a few integer operations a product; tests/bench/mma.cpp compares with the plain loop.
// TESTED   tests/kernels/mma_test.cpp: one step by hand, published biases, against mma_errors;
//          tests/kernels/oracle_test.cpp: bit for bit as another program has it [MMA-Sim]
#pragma once

#include "kernels/sees.hpp"
#include "number/mma.hpp"
#include "number/product.hpp"

namespace plumb::kernels {

// Throws std::invalid_argument if the inner sizes differ, or the unit is none or in any arrangement.
Tensor mma_product(View<float> a, View<float> b, const Mma& unit);

// The same of codes that the unit scales by powers of two: a (M, K / unit.block),
// b (K / unit.block, N).
struct UnitScales {
  View<float> a, b;
};
Tensor mma_product(View<float> a, View<float> b, const UnitScales& scales, const Mma& unit);

}  // namespace plumb::kernels
