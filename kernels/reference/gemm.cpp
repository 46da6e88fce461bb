// Plain loops: one chain of fused multiply-adds per element, k ascending.
#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "kernels/backend.hpp"

namespace plumb {
namespace {

constexpr std::size_t width = 64;  // columns whose sums stay in registers, for
constexpr std::size_t height = 6;  // so many rows at once

// A strip of B: columns [first, first + n), zeros beyond, row after row.
void copy_strip(const View<float>& b, std::size_t first, std::size_t n, Tensor::Numbers& strip) {
  strip.resize(b.rows * width);
  constexpr std::size_t at_once = 16;  // rows, where columns lie in memory: one line of each
  for (std::size_t k = 0; k < b.rows; k += at_once) {
    const std::size_t end = std::min(b.rows, k + at_once);
    for (std::size_t j = 0; b.transposed && j < n; ++j) {
      const float* from = b.data + (first + j) * b.stride;
      for (std::size_t l = k; l < end; ++l) strip[l * width + j] = from[l];
    }
    for (std::size_t l = k; !b.transposed && l < end; ++l) {
      const float* from = b.data + l * b.stride + first;
      float* to = strip.data() + l * width;
      n == width ? std::copy_n(from, width, to) : std::copy_n(from, n, to);
    }
    for (std::size_t l = k; n < width && l < end; ++l) {
      std::fill_n(strip.data() + l * width + n, width - n, 0.0F);
    }
  }
}

// Rows of op(A): element (r, k) lies at first[r * down + k * along].
struct Rows {
  const float* first;
  std::size_t down, along;
};
Rows rows_of(const View<float>& a, std::size_t i) {
  const std::size_t down = a.transposed ? 1 : a.stride, along = a.transposed ? a.stride : 1;
  return {element(a.data, i * down), down, along};
}

// Where A's columns lie in memory, its rows meet a new line at each k, and again for every strip:
// `height` rows of each k together, the next `height` after all k.
void copy_rows(const View<float>& a, Tensor::Numbers& copy) {
  constexpr std::size_t at_once = 4;
  const std::size_t groups = a.rows / height;
  copy.resize(groups * height * a.cols);
  for (std::size_t g = 0; g < groups; g += at_once) {
    for (std::size_t k = 0; k < a.cols; ++k) {
      for (std::size_t q = g; q < std::min(groups, g + at_once); ++q) {
        std::copy_n(a.data + k * a.stride + q * height, height, &copy[(q * a.cols + k) * height]);
      }
    }
  }
}

// `rows` rows of a strip of C.
template <std::size_t rows>
void chains(const Rows& a, std::size_t depth, const float* strip, float* c, std::size_t c_stride,
            bool accumulate) {
  alignas(64) float sum[rows][width];
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t j = 0; j < width; ++j) sum[r][j] = accumulate ? c[r * c_stride + j] : 0.0F;
  }
  for (std::size_t k = 0; k < depth; ++k) {
    const float* b = strip + k * width;
    for (std::size_t r = 0; r < rows; ++r) {
      const float x = a.first[r * a.down + k * a.along];
      for (std::size_t j = 0; j < width; ++j) sum[r][j] = std::fma(x, b[j], sum[r][j]);
    }
  }
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t j = 0; j < width; ++j) c[r * c_stride + j] = sum[r][j];
  }
}

// The same where only n columns of the strip exist.
template <std::size_t rows>
void chains_of(const Rows& a, std::size_t depth, const float* strip, float* c, std::size_t c_stride,
               std::size_t n, bool accumulate) {
  if (n == width) return chains<rows>(a, depth, strip, c, c_stride, accumulate);
  alignas(64) float whole[rows * width] = {};
  for (std::size_t r = 0; accumulate && r < rows; ++r) {
    std::copy_n(c + r * c_stride, n, whole + r * width);
  }
  chains<rows>(a, depth, strip, whole, width, accumulate);
  for (std::size_t r = 0; r < rows; ++r) std::copy_n(whole + r * width, n, c + r * c_stride);
}

void gemm(View<float> a, View<float> b, float* c, std::size_t c_stride, bool accumulate) {
  // Kept from product to product: they are as large as an operand.
  thread_local Tensor::Numbers strip, copy;
  const bool copied = a.transposed && b.cols > 2 * width;
  if (copied) copy_rows(a, copy);
  for (std::size_t j = 0; j < b.cols; j += width) {
    const std::size_t n = std::min(width, b.cols - j);
    copy_strip(b, j, n, strip);
    std::size_t i = 0;
    const auto by = [&](auto rows) {  // so many at once
      for (; i + rows <= a.rows; i += rows) {
        const Rows of =
            copied && rows == height ? Rows{copy.data() + i * a.cols, 1, height} : rows_of(a, i);
        chains_of<rows>(of, a.cols, strip.data(), c + i * c_stride + j, c_stride, n, accumulate);
      }
    };
    by(std::integral_constant<std::size_t, height>());
    by(std::integral_constant<std::size_t, 2>());
    by(std::integral_constant<std::size_t, 1>());
  }
}

}  // namespace

extern const Backend reference_backend{
    .name = "reference",
    .description = "plain loops, one chain of FP32 fused multiply-adds per element",
    .slice_invariant = true,
    .usable_here = [] { return true; },
    .gemm = gemm,
};

}  // namespace plumb
