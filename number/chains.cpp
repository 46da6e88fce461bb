// multiply in FP32, at the speed of the machine: strips of B, a few rows of A at a time, whose sums
// stay in registers.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <type_traits>

#include "number/instructions.hpp"
#include "number/product.hpp"
#include "number/transpose.hpp"

namespace plumb {
namespace {

using Numbers = Matrix<float>::Numbers;

constexpr std::size_t height = 6;   // rows whose sums stay in registers, and
constexpr std::size_t widest = 64;  // so many columns of each at once

// n as a number of whole registers.
constexpr std::size_t padded(std::size_t n) { return (n + lanes - 1) / lanes * lanes; }

// Columns [first, first + n) of a transposed B as rows of `to` that are `width` apart.
void copy_columns(const View<float>& b, std::size_t first, std::size_t n, std::size_t width,
                  float* to) {
  const std::size_t rows = b.rows / lanes * lanes, cols = n / lanes * lanes;
  for (std::size_t k = 0; k < rows; k += lanes) {
    for (std::size_t j = 0; j < cols; j += lanes) {
      transpose(b.data + (first + j) * b.stride + k, b.stride, to + k * width + j, width);
    }
  }
  for (std::size_t k = 0; k < b.rows; ++k) {
    for (std::size_t j = k < rows ? cols : 0; j < n; ++j) to[k * width + j] = b(k, first + j);
  }
}

// Columns [first, first + n) of B, padded(n) with zeros beyond, row after row.
void copy_strip(const View<float>& b, std::size_t first, std::size_t n, Numbers& strip) {
  const std::size_t width = padded(n);
  strip.resize(b.rows * width);
  if (n < width) std::fill(strip.begin(), strip.end(), 0.0F);
  if (b.transposed) return copy_columns(b, first, n, width, strip.data());
  for (std::size_t k = 0; k < b.rows; ++k) {
    std::memcpy(&strip[k * width], b.data + k * b.stride + first, n * sizeof(float));
  }
}

// Copies `height` rows of A for each k together, the next `height` after all k. Where A's columns
// lie in memory, its rows meet a new line at each k, and again for every strip. Rows that fill no
// `height` are left out.
void copy_rows(const View<float>& a, Numbers& copy) {
  constexpr std::size_t at_once = 16;
  const std::size_t groups = a.rows / height;
  copy.resize(groups * height * a.cols);
  for (std::size_t g = 0; g < groups; g += at_once) {
    const std::size_t end = std::min(groups, g + at_once);
    for (std::size_t k = 0; k < a.cols; ++k) {
      for (std::size_t q = g; q < end; ++q) {
        std::memcpy(&copy[(q * a.cols + k) * height], a.data + k * a.stride + q * height,
                    height * sizeof(float));
      }
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

// sum + x * row, each number rounded once.
template <std::size_t width>
PLUMB_WITHIN inline void add_multiple(float x, const float* row, float (&sum)[width]) {
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
PLUMB_WITHIN inline void chains_within(const Rows& a, std::size_t depth, const float* strip,
                                       float* c, std::size_t c_stride, bool accumulate) {
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

template <std::size_t rows, std::size_t width>
void chains(const Rows& a, std::size_t depth, const float* strip, float* c, std::size_t c_stride,
            bool accumulate) {
  for_this_processor(
      [=]() PLUMB_WITHIN { chains_within<rows, width>(a, depth, strip, c, c_stride, accumulate); });
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

}  // namespace

template <>
void multiply(View<float> a, View<float> b, float* c, std::size_t c_stride, bool accumulate) {
  if (a.cols != b.rows) throw std::invalid_argument("multiply: A's columns are not B's rows");
  if (a.rows == 0) return;  // experts without rows: C has no first from which to count
  // Kept from product to product: they are as large as an operand.
  thread_local Numbers strip, copy;
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

}  // namespace plumb
