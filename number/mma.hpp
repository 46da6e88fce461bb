// number/mma.hpp: what a matrix unit does in one step: a description, not an arithmetic.
//
// kernels/mma computes as it says, bounds/mma.hpp bounds it, bounds/machine.hpp reads it from a
// card.
// TESTED   tests/kernels/mma_test.cpp
#pragma once

#include <optional>

#include "number/format.hpp"

namespace plumb {

// One step of a matrix unit: D = C + sum of `terms` products, as [MMA-Sim] and [FHMP21] describe
// it (theory.md T2). Products are exact; E is the largest exponent among products (e(a) + e(b), not
// renormalised) and C; every addend is cut toward zero at 2^(E - grid), the sum is exact, its
// result is cut toward zero to `kept` fraction bits.
struct Mma {
  Format input;
  int terms, grid, kept;
  // Every so many products (a multiple of `terms`) the sum is added to an FP32 number, nearest
  // even, and starts again at zero; 0: never. The kernel decides this, not the machine.
  int promoted_after = 0;
  // Format of the second operand, where it is another (E4M3 by E5M2).
  std::optional<Format> second = {};
  const Format& second_input() const { return second ? *second : input; }

  static constexpr int most_terms = 64;
  // Throws std::invalid_argument if this is no unit: 1 to 64 terms, grid 1 to 40, kept 1 to 23.
  void check() const;
};

}  // namespace plumb
