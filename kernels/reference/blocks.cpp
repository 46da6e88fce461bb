#include <cmath>
#include <limits>
#include <stdexcept>

#include "kernels/ops.hpp"
#include "number/rounding.hpp"

namespace plumb::kernels {
namespace {

std::size_t count(std::size_t n, std::size_t block) { return (n + block - 1) / block; }

float least_power_above(float x) {  // or x itself
  int exponent = 0;
  const float fraction = std::frexp(x, &exponent);
  return std::ldexp(1.0F, std::max(fraction == 0.5F ? exponent - 1 : exponent, -127));
}

constexpr float most_fp32 = std::numeric_limits<float>::max();

// The product that brings the tensor's largest magnitude to the largest element times the largest
// scale.
float encoding_scale(float tensor_amax, const Format& format) {
  const auto product = static_cast<float>(format.largest()) * static_cast<float>(e4m3fn.largest());
  const float scale = std::min(product / tensor_amax, most_fp32);
  return tensor_amax == 0 || scale == 0 ? 1 : scale;
}

// Transformer Engine's steps, each in FP32.
float scale_by_reciprocals(float amax, const Format& format, float tensor_amax) {
  const float encode = encoding_scale(tensor_amax, format), decode = 1 / encode;
  const float reciprocal = 1 / static_cast<float>(format.largest());
  const float sought = std::min(amax * (encode * reciprocal), static_cast<float>(e4m3fn.largest()));
  return round_to(sought, e4m3fn) * decode;
}

}  // namespace

Tensor block_magnitudes(const Tensor& x, const BlockSize& block) {
  Tensor amax(count(x.rows, block.rows), count(x.cols, block.cols));
  for (std::size_t i = 0; i < x.rows; ++i) {
    for (std::size_t j = 0; j < x.cols; ++j) {
      float& largest = amax(i / block.rows, j / block.cols);
      if (std::isfinite(x(i, j))) largest = std::max(largest, std::fabs(x(i, j)));
    }
  }
  return amax;
}

float grid_of_scales(float tensor_amax, ScaleRule rule, const Format& format) {
  if (rule == ScaleRule::nested_reciprocal) return 1 / encoding_scale(tensor_amax, format);
  if (tensor_amax == 0) return 1;
  const double most = format.largest() * e4m3fn.largest();
  return std::max(static_cast<float>(static_cast<double>(tensor_amax) / most), 0x1p-126F);
}

float block_scale_to_fit(float amax, ScaleRule rule, const Format& format, float tensor_amax) {
  if (rule == ScaleRule::floor || rule == ScaleRule::even) {
    throw std::invalid_argument(
        "blocks are scaled by the rules ceil, exact, nested and nested_reciprocal");
  }
  if (rule == ScaleRule::nested_reciprocal) return scale_by_reciprocals(amax, format, tensor_amax);
  if (amax == 0) return 1;
  const double exact = static_cast<double>(amax) / format.largest();
  if (rule == ScaleRule::ceil) {
    const float scale = least_power_above(static_cast<float>(exact));
    // Narrowing to FP32 may have lost what lies above a power of two.
    return static_cast<double>(scale) * format.largest() < static_cast<double>(amax) ? 2 * scale
                                                                                     : scale;
  }
  if (rule == ScaleRule::exact) return std::max(static_cast<float>(exact), 0x1p-126F);
  const float grid = grid_of_scales(tensor_amax, rule, format);
  const double steps = std::min(exact / static_cast<double>(grid), e4m3fn.largest());
  const double rounded = std::max(round_to(steps, e4m3fn), 0x1p-9);
  return std::max(static_cast<float>(rounded * static_cast<double>(grid)), 0x1p-126F);
}

void divide_blocks(Tensor& x, const Tensor& scales, const BlockSize& block) {
  for (std::size_t i = 0; i < x.rows; ++i) {
    for (std::size_t j = 0; j < x.cols; ++j) x(i, j) /= scales(i / block.rows, j / block.cols);
  }
}

void divide_blocks_by_reciprocals(Tensor& x, const Tensor& scales, const BlockSize& block) {
  for (std::size_t i = 0; i < x.rows; ++i) {
    for (std::size_t j = 0; j < x.cols; ++j) {
      x(i, j) *= std::min(1 / scales(i / block.rows, j / block.cols), most_fp32);
    }
  }
}

void multiply_blocks(Tensor& x, const Tensor& scales, const BlockSize& block) {
  for (std::size_t i = 0; i < x.rows; ++i) {
    for (std::size_t j = 0; j < x.cols; ++j) x(i, j) *= scales(i / block.rows, j / block.cols);
  }
}

void saturate(std::span<float> x, const Format& format) {
  const auto largest = static_cast<float>(format.largest());
  for (float& v : x) {
    if (std::fabs(v) > largest) v = std::copysign(largest, v);
  }
}

}  // namespace plumb::kernels
