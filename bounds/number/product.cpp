#include "bounds/number/product.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "bounds/number/moment.hpp"
#include "bounds/number/truth.hpp"

namespace plumb {
namespace {

template <class T>
constexpr std::size_t panel = 256 / sizeof(T);  // columns of a tile: four 64-byte vectors

// R rows by one panel of C. Plain loops with constant ends: both compilers keep `sum` in registers.
template <class T, std::size_t R>
void tile(const View<T>& a, std::size_t i, const T* packed, T* c, std::size_t c_stride,
          std::size_t width, bool accumulate) {
  T sum[R][panel<T>] = {};
  if (accumulate) {
    for (std::size_t r = 0; r < R; ++r) {
      for (std::size_t j = 0; j < width; ++j) sum[r][j] = c[r * c_stride + j];
    }
  }
  const std::size_t row_step = a.transposed ? 1 : a.stride;
  const std::size_t k_step = a.transposed ? a.stride : 1;
  const T* first = element(a.data, i * row_step);
  using std::fma;
  for (std::size_t k = 0; k < a.cols; ++k) {
    for (std::size_t r = 0; r < R; ++r) {
      const T x = first[r * row_step + k * k_step];
      for (std::size_t j = 0; j < panel<T>; ++j) {
        sum[r][j] = fma(x, packed[k * panel<T> + j], sum[r][j]);
      }
    }
  }
  for (std::size_t r = 0; r < R; ++r) {
    for (std::size_t j = 0; j < width; ++j) c[r * c_stride + j] = sum[r][j];
  }
}

// Columns [j, j + width) of op(B), padded with zeros to a full panel.
template <class T>
void pack(const View<T>& b, std::size_t j, std::size_t width, std::vector<T>& packed) {
  packed.resize(b.rows * panel<T>);
  for (std::size_t k = 0; k < b.rows; ++k) {
    T* to = packed.data() + k * panel<T>;
    for (std::size_t n = 0; n < width; ++n) to[n] = b(k, j + n);
    std::fill(to + width, to + panel<T>, T(0));
  }
}

}  // namespace

template <class T>
void multiply(View<T> a, View<T> b, T* c, std::size_t c_stride, bool accumulate) {
  if (a.cols != b.rows) throw std::invalid_argument("multiply: A's columns are not B's rows");
  std::vector<T> packed;
  for (std::size_t j = 0; j < b.cols; j += panel<T>) {
    const std::size_t width = std::min(panel<T>, b.cols - j);
    pack(b, j, width, packed);
    std::size_t i = 0;
    for (; i + 6 <= a.rows; i += 6) {
      tile<T, 6>(a, i, packed.data(), c + i * c_stride + j, c_stride, width, accumulate);
    }
    for (; i < a.rows; ++i) {
      tile<T, 1>(a, i, packed.data(), c + i * c_stride + j, c_stride, width, accumulate);
    }
  }
}

Matrix<float> product_of_sizes(View<double> a, View<double> b) {
  const auto sizes = [](const View<double>& x) {
    Matrix<float> all(x.rows, x.cols, to_be_written);
    for (std::size_t i = 0; i < x.rows; ++i) {
      for (std::size_t k = 0; k < x.cols; ++k) all(i, k) = static_cast<float>(std::fabs(x(i, k)));
    }
    return all;
  };
  const Matrix<float> of_a = sizes(a), of_b = sizes(b);
  return product(view(of_a), view(of_b));
}

template void multiply(View<double>, View<double>, double*, std::size_t, bool);
template void multiply(View<Moment>, View<Moment>, Moment*, std::size_t, bool);
template void multiply(View<Truth>, View<Truth>, Truth*, std::size_t, bool);

}  // namespace plumb
