// bounds/cast_product.hpp: how far a product of cast operands may be from the exact one, and how
// far the casts themselves move it.
//
//   C~ = A~ B~    of the codes times their scales      A, A~ (M, K)    B, B~ (K, N)
//   given_codes   |what a machine makes of the codes - C~|
//   whole         |what a machine makes of A and B - A B| <= given_codes + the casts' share
//
// The casts' share is |A~ B~ - A B| of the operands at hand, since a cast to nearest with given
// scales has one result; of casts by chance it is |A~ - A| |B| + |A~| |B~ - B|, each code a whole
// spacing off: another draw has other codes.
//
// On a matrix unit (theory.md T5) a chain of codes ends where a scale does or the recipe promotes.
// The unit's error on it (mma.hpp) is multiplied by the scales; scaling in FP32 costs two roundings
// unless the scales are powers of two, and each addition of chains one. Elsewhere the operands are
// code * scale in FP32 and the sums are the card's, or in any order; u |A~| |B~| for each operand
// whose scales are not powers of two covers their rounding, and scaling a chain's sum instead.
//
// ASSUMES  codes and scales of `cast_operand`; scales and their products within 2^-90 ... 2^90.
// REFUSES  unsupported   by name what the card has no unit for
//          may_overflow  scales beyond those, and results beyond their format
// COSTS    four FP64 products, and mma_errors or the tolerance of gemm
// TESTED   tests/kernels/cast_product_test.cpp, tests/cli/bound_recipe_test.cpp
// SOURCES  theory.md T3, T5, D1; bounds/SOURCES.md [MMA-Sim] [DeepSeek-V3]
#pragma once

#include <optional>
#include <string>

#include "bounds/cast_operand.hpp"
#include "bounds/machine.hpp"
#include "bounds/operation.hpp"
#include "bounds/sees.hpp"

namespace plumb::bounds {

struct CastProductCall {
  const CastOperand &a, &b;   // A (M, K) and B' (N, K)
  std::size_t promotion = 0;  // terms of a chain, whose sums FP32 adds; 0: one chain
  Evaluation how = {};
  Mode mode = Mode::deterministic;
  double delta = 0;
  std::optional<std::size_t> explained = {};  // the element whose bound the terms add up to
};

struct CastProduct {
  Matrix<double> value, of_codes;  // A B and A~ B~
  Tolerance given_codes, whole;    // `whole` has the terms, those of the casts among them
  bool exact = true;               // is the casts' share that of these operands?
};

Outcome<CastProduct> cast_product_on(const Machine& machine, const CastProductCall& call);

// In which order that product is taken, in words.
std::string assumed_sums_of_codes(const Machine& machine, const CastProductCall& call);

}  // namespace plumb::bounds
