// Plain loops: one chain of fused multiply-adds per element, k ascending.
#include <cmath>

#include "kernels/backend.hpp"

namespace plumb {
namespace {

constexpr std::size_t width = 32;  // columns that are summed side by side, in registers

// One strip of one row of C; `b` is plain (K, N).
void strip(const View<float>& a, std::size_t i, const float* b, std::size_t b_stride, float* c,
           std::size_t n, bool accumulate) {
  float sum[width] = {};
  if (accumulate) std::copy_n(c, n, sum);
  if (n == width) {
    for (std::size_t k = 0; k < a.cols; ++k) {
      const float x = a(i, k);
      for (std::size_t j = 0; j < width; ++j) sum[j] = std::fma(x, b[k * b_stride + j], sum[j]);
    }
  } else {
    for (std::size_t k = 0; k < a.cols; ++k) {
      const float x = a(i, k);
      for (std::size_t j = 0; j < n; ++j) sum[j] = std::fma(x, b[k * b_stride + j], sum[j]);
    }
  }
  std::copy_n(sum, n, c);
}

void gemm(View<float> a, View<float> b, float* c, std::size_t c_stride, bool accumulate) {
  std::vector<float> plain;  // a transposed B is turned once, so that rows can be read in order
  if (b.transposed) {
    plain.resize(b.rows * b.cols);
    for (std::size_t j = 0; j < b.cols; ++j) {
      for (std::size_t k = 0; k < b.rows; ++k) plain[k * b.cols + j] = b.data[j * b.stride + k];
    }
    b = {plain.data(), b.rows, b.cols, b.cols, false};
  }
  for (std::size_t j = 0; j < b.cols; j += width) {
    const std::size_t n = std::min(width, b.cols - j);
    for (std::size_t i = 0; i < a.rows; ++i) {
      strip(a, i, b.data + j, b.stride, c + i * c_stride + j, n, accumulate);
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
