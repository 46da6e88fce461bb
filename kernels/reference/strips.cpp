#include "kernels/reference/strips.hpp"

#include <algorithm>
#include <cstring>

namespace plumb {
namespace {

void copy_transposed(const View<float>& b, std::size_t first, std::size_t n, std::size_t width,
                     float* strip) {
  const std::size_t rows = b.rows / lanes * lanes, cols = n / lanes * lanes;
  for (std::size_t k = 0; k < rows; k += lanes) {
    for (std::size_t j = 0; j < cols; j += lanes) {
      transpose(b.data + (first + j) * b.stride + k, b.stride, strip + k * width + j, width);
    }
  }
  for (std::size_t k = 0; k < b.rows; ++k) {
    for (std::size_t j = k < rows ? cols : 0; j < n; ++j) strip[k * width + j] = b(k, first + j);
  }
}

}  // namespace

void copy_strip(const View<float>& b, std::size_t first, std::size_t n, Tensor::Numbers& strip) {
  const std::size_t width = padded(n);
  strip.resize(b.rows * width);
  if (n < width) std::fill(strip.begin(), strip.end(), 0.0F);
  if (b.transposed) return copy_transposed(b, first, n, width, strip.data());
  for (std::size_t k = 0; k < b.rows; ++k) {
    std::memcpy(&strip[k * width], b.data + k * b.stride + first, n * sizeof(float));
  }
}

void copy_rows(const View<float>& a, Tensor::Numbers& copy) {
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

}  // namespace plumb
