#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/ops.hpp"
#include "number/transpose.hpp"

namespace plumb::kernels {
namespace {

// Sums of each row are chains; those of several rows at once do not wait for one another.
constexpr std::size_t at_once = lanes;
using OfRows = std::array<float, at_once>;

// Sets `values` to columns [first, first + at_once) of rows from t on, a column after the other;
// the last row stands in for rows beyond it. Returns how many columns there are.
std::size_t columns_of(const Tensor& x, std::size_t t, std::size_t first,
                       float (&values)[at_once][at_once]) {
  const std::size_t n = std::min(at_once, x.cols - first);
  if (n == at_once && t + at_once <= x.rows) {
    transpose(x.row(t) + first, x.cols, values[0], at_once);
    return n;
  }
  for (std::size_t r = 0; r < at_once; ++r) {
    const float* row = x.row(std::min(t + r, x.rows - 1)) + first;
    for (std::size_t j = 0; j < n; ++j) values[j][r] = row[j];
  }
  return n;
}

// Centred values times the inverse deviation; RMSNorm does not centre.
struct RowStatistics {
  OfRows mean{}, inverse{};
};

RowStatistics statistics_of(const Tensor& x, std::size_t t, bool centred, float eps) {
  float values[at_once][at_once];
  const auto n = static_cast<float>(x.cols);
  RowStatistics s;
  for (std::size_t first = 0; centred && first < x.cols; first += at_once) {
    const std::size_t columns = columns_of(x, t, first, values);
    for (std::size_t j = 0; j < columns; ++j) {
      for (std::size_t r = 0; r < at_once; ++r) s.mean[r] += values[j][r];
    }
  }
  for (float& mean : s.mean) mean /= n;
  OfRows squares{};
  for (std::size_t first = 0; first < x.cols; first += at_once) {
    const std::size_t columns = columns_of(x, t, first, values);
    for (std::size_t j = 0; j < columns; ++j) {
      for (std::size_t r = 0; r < at_once; ++r) {
        const float d = values[j][r] - s.mean[r];
        squares[r] = std::fma(d, d, squares[r]);
      }
    }
  }
  for (std::size_t r = 0; r < at_once; ++r) s.inverse[r] = 1.0F / std::sqrt(squares[r] / n + eps);
  return s;
}

// Sums along each row of dy w and of dy w times the normalised values.
struct RowSums {
  OfRows sum{}, along{};
};

RowSums sums_of(const Tensor& normal, std::span<const float> weight, const Tensor& dy,
                std::size_t t) {
  float above[at_once][at_once], values[at_once][at_once];
  const auto n = static_cast<float>(dy.cols);
  RowSums s;
  for (std::size_t first = 0; first < dy.cols; first += at_once) {
    const std::size_t columns = columns_of(dy, t, first, above);
    columns_of(normal, 0, first, values);
    for (std::size_t j = 0; j < columns; ++j) {
      for (std::size_t r = 0; r < at_once; ++r) {
        const float scaled = above[j][r] * weight[first + j];
        s.sum[r] += scaled;
        s.along[r] = std::fma(scaled, values[j][r], s.along[r]);
      }
    }
  }
  for (std::size_t r = 0; r < at_once; ++r) {
    s.sum[r] /= n;
    s.along[r] /= n;
  }
  return s;
}

}  // namespace

Tensor norm_forward(const Tensor& x, std::span<const float> weight, std::span<const float> bias,
                    float eps) {
  const bool centred = !bias.empty();
  Tensor y(x.rows, x.cols, to_be_written);
  for (std::size_t first = 0; first < x.rows; first += at_once) {
    const RowStatistics s = statistics_of(x, first, centred, eps);
    for (std::size_t r = 0; r < at_once && first + r < x.rows; ++r) {
      const float *from = x.row(first + r), mean = s.mean[r], inverse = s.inverse[r];
      float* to = y.row(first + r);
      for (std::size_t j = 0; j < x.cols; ++j) {
        const float d = centred ? from[j] - mean : from[j];
        to[j] = d * inverse * weight[j];
        if (centred) to[j] += bias[j];
      }
    }
  }
  return y;
}

NormGradients norm_backward(const Tensor& x, std::span<const float> weight, const Tensor& dy,
                            bool layer_norm, float eps) {
  NormGradients g{Tensor(x.rows, x.cols, to_be_written), Tensor(x.cols, 1), {}};
  Tensor normal(at_once, x.cols);
  for (std::size_t first = 0; first < x.rows; first += at_once) {
    const RowStatistics s = statistics_of(x, first, layer_norm, eps);
    const std::size_t n = std::min(at_once, x.rows - first);
    for (std::size_t r = 0; r < n; ++r) {
      const float *from = x.row(first + r), mean = s.mean[r], inverse = s.inverse[r];
      for (std::size_t j = 0; j < x.cols; ++j) {
        normal(r, j) = (layer_norm ? from[j] - mean : from[j]) * inverse;
      }
    }
    const RowSums sums = sums_of(normal, weight, dy, first);
    for (std::size_t r = 0; r < n; ++r) {
      const float *above = dy.row(first + r), inverse = s.inverse[r], along = sums.along[r];
      const float* of_row = normal.row(r);
      float* dx = g.dx.row(first + r);
      for (std::size_t j = 0; j < x.cols; ++j) {
        float d = above[j] * weight[j];
        if (layer_norm) d -= sums.sum[r];
        dx[j] = inverse * (d - of_row[j] * along);
        g.weight.values[j] += above[j] * of_row[j];
      }
    }
  }
  if (layer_norm) g.bias = sum_of_rows(dy);
  return g;
}

}  // namespace plumb::kernels
