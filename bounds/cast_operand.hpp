// bounds/cast_operand.hpp: an operand of a product as a recipe casts it: codes of a short format,
// and the scales that they are multiples of.
//
//   x~ = code * scale      x, code (N, K): K is summed over      scale (N, blocks along K)
//
//   no          code = cast(x), scale 1
//   by_tensor   code = cast(x s), scale 1 / s, s of amax_scale
//   by_blocks   code = cast(x / s), scale s, of the rules of number/blocks.hpp, which may take
//               x (1 / s) for x / s
// Casts are those of the operations cast, quantize and quantize_blocks, bit by bit, whose results
// are code * scale rounded to FP32. Blocks are `along` the sum by `across` it.
//
// TESTED   tests/kernels/cast_product_test.cpp
#pragma once

#include <cstdint>
#include <vector>

#include "bounds/sees.hpp"
#include "number/blocks.hpp"
#include "number/format.hpp"
#include "number/matrix.hpp"

namespace plumb::bounds {

struct CastRule {
  enum class Scaled { no, by_tensor, by_blocks };
  Format format = fp32;
  Scaled scaled = Scaled::no;
  std::size_t along = 1, across = 1;
  ScaleRule scales = ScaleRule::ceil;
  bool by_chance = false;  // rounded stochastically

  bool in_blocks() const { return scaled == Scaled::by_blocks; }
};

struct CastOperand {
  CastRule rule;
  Matrix<double> input, codes, scales;
  std::vector<std::size_t> begins;  // of the blocks along K, and K

  // The number that a code stands for; exact, as a code and a scale have 35 bits at most.
  Matrix<double> exact() const;  // (N, K)
  // The same as FP32 holds it, which a product in FP32 takes.
  Matrix<double> in_fp32() const;  // (N, K)
  // How far each may be from `input`: as it is, or, rounded by chance, a whole spacing.
  Matrix<double> moved() const;  // (N, K)
  // Are all scales powers of two, so that scaling loses nothing?
  bool powers() const;
};

// `largest`: the tensor's largest magnitude, of which `input` may be a sample. Blocks across begin
// at row 0; along they begin anew in each of `parts` slices. `key` decides casts by chance.
CastOperand cast_operand(Matrix<double> input, const CastRule& rule, double largest, int parts = 1,
                         std::uint64_t key = 1);

// Returns these rows of it.
CastOperand rows_of(const std::vector<std::size_t>& numbers, const CastOperand& x);

double largest_magnitude(const Matrix<double>& x);

}  // namespace plumb::bounds
