// number/mma.hpp: what a matrix unit does in one step: a description, not an arithmetic.
//
//   kind      one step, D = C + sum of `terms` products, in an accumulator of FP32 or FP16
//   aligned   NVIDIA: every addend is cut toward zero at 2^(E - grid), E the largest exponent of
//             the products and of C; the sum is exact, its result has `kept` bits
//   exact     AMD CDNA1: the exact sum, rounded once to nearest
//   paired    AMD CDNA2: FP32 products, added in pairs, and these to C; all subnormals are flushed
//   floored   AMD CDNA3: products are cut as above, in `groups`; their sum and C meet at 2^(E - 32)
//             and 2^(E - grid), cut down; so is what they add up to, at `kept` bits; then FP32
//
// theory.md T2, T6 have the details. kernels/mma computes as it says, bounds/mma.hpp bounds it,
// bounds/machine.hpp reads it from a card.
// TESTED   tests/kernels/mma_test.cpp, tests/kernels/oracle_test.cpp
// SOURCES  bounds/SOURCES.md [MMA-Sim] [FHMP21]
#pragma once

#include <optional>

#include "number/format.hpp"

namespace plumb {

// Products are exact. Their exponents are e(a) + e(b), not renormalised; a subnormal number has the
// exponent of the smallest normal one.
struct Mma {
  enum class Kind { aligned, exact, paired, floored };

  Format input;
  int terms, grid, kept;
  // Every so many products (a multiple of `terms`) the sum is added to an FP32 number, nearest
  // even, and starts again at zero; 0: never. The kernel decides this, not the machine.
  int promoted_after = 0;
  // Format of the second operand, where it is another (E4M3 by E5M2).
  std::optional<Format> second = {};
  Kind kind = Kind::aligned;
  Format sum = fp32;  // of C and D: fp32, or of aligned units fp16
  // Of aligned units: is the result rounded to nearest even, or cut toward zero?
  bool nearest = false;
  // Of aligned units: the exponent of an addend that is zero, if it has one. E is never below.
  std::optional<int> zero = {};
  // Of aligned units: so many terms have a power of two in common, with which the unit scales them
  // (E8M0); 0: it scales nothing.
  int block = 0;
  // Of aligned units: does nobody say in which arrangement a kernel takes the steps? K may be dealt to
  // several sums, steps of half of the terms may be among them, and FP32 adds what they make. Nothing
  // computes as such a unit: bounds/mma_any.hpp bounds it.
  bool any_steps = false;
  int groups = 1;  // of floored units: every groups-th product is cut with its own E

  const Format& second_input() const { return second ? *second : input; }
  // Do moments and chance have a derivation for it (theory.md T4)?
  bool foretold() const { return (kind == Kind::aligned || kind == Kind::exact) && !any_steps; }

  static constexpr int most_terms = 64;
  // Throws std::invalid_argument if this is no unit: e.g. 1 to 64 terms, grid 1 to 40, kept 1 to
  // the bits of the sum.
  void check() const;
};

}  // namespace plumb
