// Plain loops: one chain of fused multiply-adds per element, k ascending.
#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

#include "kernels/backend.hpp"
#include "kernels/reference/strips.hpp"

namespace plumb {
namespace {

// Rows of op(A): element (r, k) lies at first[r * down + k * along].
struct Rows {
  const float* first;
  std::size_t down, along;
};
Rows rows_of(const View<float>& a, std::size_t i) {
  const std::size_t down = a.transposed ? 1 : a.stride, along = a.transposed ? a.stride : 1;
  return {element(a.data, i * down), down, along};
}

// sum + x * row, each number rounded once.
template <std::size_t width>
void add_multiple(float x, const float* row, float (&sum)[width]) {
  if constexpr (width > lanes) {
    for (std::size_t j = 0; j < width; ++j) sum[j] = std::fma(x, row[j], sum[j]);
  } else {
    // GCC would make sixteen instructions of a loop that is one wide instruction.
#pragma GCC unroll 1
    for (std::size_t j = 0; j < width; ++j) sum[j] = std::fma(x, row[j], sum[j]);
  }
}

// `rows` rows of a strip of C, `width` columns wide.
template <std::size_t rows, std::size_t width>
void chains(const Rows& a, std::size_t depth, const float* strip, float* c, std::size_t c_stride,
            bool accumulate) {
  alignas(64) float sum[rows][width];
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t j = 0; j < width; ++j) sum[r][j] = accumulate ? c[r * c_stride + j] : 0.0F;
  }
  for (std::size_t r = 0; r < rows; ++r) {  // to be written when the chains are done
    for (std::size_t j = 0; j < width; j += lanes) __builtin_prefetch(c + r * c_stride + j, 1);
  }
  for (std::size_t k = 0; k < depth; ++k) {
    const float* b = strip + k * width;
    for (std::size_t r = 0; r < rows; ++r) {
      const float x = a.first[r * a.down + k * a.along];
      add_multiple(x, b, sum[r]);
    }
  }
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t j = 0; j < width; ++j) c[r * c_stride + j] = sum[r][j];
  }
}

// The same where only n columns of the strip exist.
template <std::size_t rows, std::size_t width>
void chains_of(const Rows& a, std::size_t depth, const float* strip, float* c, std::size_t c_stride,
               std::size_t n, bool accumulate) {
  if (n == width) return chains<rows, width>(a, depth, strip, c, c_stride, accumulate);
  alignas(64) float whole[rows * width] = {};
  for (std::size_t r = 0; accumulate && r < rows; ++r) {
    std::copy_n(c + r * c_stride, n, whole + r * width);
  }
  chains<rows, width>(a, depth, strip, whole, width, accumulate);
  for (std::size_t r = 0; r < rows; ++r) std::copy_n(whole + r * width, n, c + r * c_stride);
}

// All rows of a strip of C. `copy`: what copy_rows made of A, or null.
template <std::size_t width>
void columns(const View<float>& a, const float* copy, const float* strip, float* c,
             std::size_t c_stride, std::size_t n, bool accumulate) {
  std::size_t i = 0;
  const auto by = [&](auto rows) {  // so many at once
    for (; i + rows <= a.rows; i += rows) {
      const Rows of = copy && rows == height ? Rows{copy + i * a.cols, 1, height} : rows_of(a, i);
      chains_of<rows, width>(of, a.cols, strip, c + i * c_stride, c_stride, n, accumulate);
    }
  };
  by(std::integral_constant<std::size_t, height>());
  by(std::integral_constant<std::size_t, 2>());
  by(std::integral_constant<std::size_t, 1>());
}

void gemm(View<float> a, View<float> b, float* c, std::size_t c_stride, bool accumulate) {
  // Kept from product to product: they are as large as an operand.
  thread_local Tensor::Numbers strip, copy;
  const bool copied = a.transposed && b.cols > 2 * widest;
  if (copied) copy_rows(a, copy);
  constexpr std::array by_registers{&columns<lanes>, &columns<2 * lanes>, &columns<3 * lanes>,
                                    &columns<4 * lanes>};
  static_assert(by_registers.size() * lanes == widest);
  for (std::size_t j = 0; j < b.cols; j += widest) {
    const std::size_t n = std::min(widest, b.cols - j);
    copy_strip(b, j, n, strip);
    by_registers[padded(n) / lanes - 1](a, copied ? copy.data() : nullptr, strip.data(), c + j,
                                        c_stride, n, accumulate);
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
