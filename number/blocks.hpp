// number/blocks.hpp: tensors in few bits: elements of a small format, one scale a block.
//
//   x_ij ~ scale(block of ij) * element
//   element = round_to(x_ij / scale, element format, saturating)
//
// A scale comes from the largest magnitude of its block (amax):
//   floor   2^(floor(log2 amax) - emax)      OCP's rule: numbers above the largest element saturate
//   ceil    the least power of two with which nothing saturates
//   even    floor of amax rounded to the element's precision
//   exact   amax / largest, in FP32
//   nested  amax / largest in E4M3 on a grid that one FP32 scale t of the tensor sets (NVFP4):
//           t = tensor amax / (448 largest) in FP32, amax / largest / t in FP64, then E4M3
//   nested_reciprocal  the same in FP32, by products with reciprocals, as Transformer Engine does:
//           e = 448 largest / tensor amax, t = 1 / e, amax (e (1 / largest)) in E4M3, times t
// A block of zeros has the scale 1; no scale in FP32 is below its normal numbers, and none in E4M3
// below the smallest one. Not so nested_reciprocal: what rounds to 0 is 0, and so is all of its
// block; and an element is that of x (1 / scale). Blocks at the edges may be smaller.
//
// CLAIM    unless it saturates, an element is off by at most u/(1+u) |x| + scale spacing_at_zero/2.
//          ceil never saturates; floor saturates a value above largest/2^emax 2^floor(log2 amax).
// ERRORS   x / scale is rounded in FP64 first: two roundings, which differ from one only where
//          x / scale lies within 2^-53 of a midpoint.
// SOURCES  [OCP-MX] blocks of 32 and the floor rule; [NVFP4], its kernels for nested_reciprocal;
//          [DeepSeek-V3] 1x128 and 128x128
// TESTED   tests/number/blocks_test.cpp
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "number/format.hpp"
#include "number/matrix.hpp"

namespace plumb {

enum class ScaleRule { floor, ceil, even, exact, nested, nested_reciprocal };

// Does a scale of the whole tensor set the grid?
constexpr bool is_nested(ScaleRule rule) {
  return rule == ScaleRule::nested || rule == ScaleRule::nested_reciprocal;
}

struct BlockFormat {
  std::string_view name;
  Format element;
  std::size_t rows, cols;  // of a block; 0: of the whole tensor
  ScaleRule rule;
};

// clang-format off
inline constexpr std::array block_formats{
    BlockFormat{"mxfp8-e4m3",   e4m3fn,   1,  32, ScaleRule::floor},
    BlockFormat{"mxfp8-e5m2",   e5m2,     1,  32, ScaleRule::floor},
    BlockFormat{"mxfp6-e3m2",   e3m2,     1,  32, ScaleRule::floor},
    BlockFormat{"mxfp6-e2m3",   e2m3,     1,  32, ScaleRule::floor},
    BlockFormat{"mxfp4",        e2m1,     1,  32, ScaleRule::floor},
    BlockFormat{"nvfp4",        e2m1,     1,  16, ScaleRule::nested},
    BlockFormat{"e4m3-1x128",   e4m3fn,   1, 128, ScaleRule::exact},
    BlockFormat{"e4m3-128x128", e4m3fn, 128, 128, ScaleRule::exact},
    BlockFormat{"e4m3-tensor",  e4m3fn,   0,   0, ScaleRule::exact},
    BlockFormat{"e5m2-tensor",  e5m2,     0,   0, ScaleRule::exact}};
// clang-format on

// Returns the row of that name, or nullptr.
const BlockFormat* find_block_format(std::string_view name);

// The scale of a block with largest magnitude `amax`; that of the tensor is for nested scales only.
double block_scale(double amax, ScaleRule rule, const Format& element, double tensor_amax = 0);
// The grid of nested scales: its largest number stands for the tensor's largest magnitude.
double nested_scale(double tensor_amax, ScaleRule rule, const Format& element);
// What of x the cast to the elements takes, in FP32.
float in_scale(float x, float scale, ScaleRule rule);
// Where blocks of `size` begin along an axis of n, and n as the end. They begin anew in each of
// `parts` equal slices of the axis.
std::vector<std::size_t> block_starts(std::size_t n, std::size_t size, int parts);

struct Quantised {
  Tensor values;              // elements times scales, in FP32
  Tensor scales;              // one per block, in the blocks' order
  std::size_t saturated = 0;  // elements beyond the largest before they were cut
};

// Throws nothing: values that are not finite stay as they are and set no scale.
Quantised quantise(const Tensor& x, const BlockFormat& to);

}  // namespace plumb
