// Plain loops: one chain of fused multiply-adds per element, k ascending.
#include <cmath>

#include "kernels/backend.hpp"

namespace plumb {
namespace {

constexpr std::size_t width = 64;  // columns whose sums stay in registers, for a few rows at once

// A strip of B: columns [first, first + n), zeros beyond, row after row.
void copy_strip(const View<float>& b, std::size_t first, std::size_t n, std::vector<float>& strip) {
  strip.resize(b.rows * width);
  const std::size_t down = b.transposed ? 1 : b.stride, along = b.transposed ? b.stride : 1;
  for (std::size_t k = 0; k < b.rows; ++k) {
    const float* from = b.data + k * down + first * along;
    float* to = strip.data() + k * width;
    for (std::size_t j = 0; j < n; ++j) to[j] = from[j * along];
    std::fill(to + n, to + width, 0.0F);
  }
}

// `rows` rows of a strip of C, of which n columns exist.
template <std::size_t rows>
void chains(const View<float>& a, std::size_t i, const std::vector<float>& strip, float* c,
            std::size_t c_stride, std::size_t n, bool accumulate) {
  float sum[rows][width] = {};
  for (std::size_t r = 0; accumulate && r < rows; ++r) std::copy_n(c + r * c_stride, n, sum[r]);
  const std::size_t down = a.transposed ? 1 : a.stride, along = a.transposed ? a.stride : 1;
  const float* first = a.data + i * down;
  for (std::size_t k = 0; k < a.cols; ++k) {
    const float* b = strip.data() + k * width;
    for (std::size_t r = 0; r < rows; ++r) {
      const float x = first[r * down + k * along];
      for (std::size_t j = 0; j < width; ++j) sum[r][j] = std::fma(x, b[j], sum[r][j]);
    }
  }
  for (std::size_t r = 0; r < rows; ++r) std::copy_n(sum[r], n, c + r * c_stride);
}

void gemm(View<float> a, View<float> b, float* c, std::size_t c_stride, bool accumulate) {
  std::vector<float> strip;
  for (std::size_t j = 0; j < b.cols; j += width) {
    const std::size_t n = std::min(width, b.cols - j);
    copy_strip(b, j, n, strip);
    std::size_t i = 0;
    for (; i + 6 <= a.rows; i += 6) {
      chains<6>(a, i, strip, c + i * c_stride + j, c_stride, n, accumulate);
    }
    for (; i < a.rows; ++i) {
      chains<1>(a, i, strip, c + i * c_stride + j, c_stride, n, accumulate);
    }
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
