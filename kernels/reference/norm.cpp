#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/ops.hpp"

namespace plumb {
namespace {

// Each row's sums are chains; those of several rows at once do not wait for one another.
constexpr std::size_t at_once = 8;
using OfRows = std::array<float, at_once>;

// Rows from t on; beyond the last one that again.
std::array<const float*, at_once> rows_from(const Tensor& x, std::size_t t) {
  std::array<const float*, at_once> rows;
  for (std::size_t r = 0; r < at_once; ++r) rows[r] = x.row(std::min(t + r, x.rows - 1));
  return rows;
}

// Centred values times the inverse deviation; RMSNorm does not centre.
struct RowStatistics {
  OfRows mean{}, inverse{};
};

RowStatistics statistics_of(const Tensor& x, std::size_t t, bool centred, float eps) {
  const auto rows = rows_from(x, t);
  const auto n = static_cast<float>(x.cols);
  RowStatistics s;
  if (centred) {
    for (std::size_t j = 0; j < x.cols; ++j) {
      for (std::size_t r = 0; r < at_once; ++r) s.mean[r] += rows[r][j];
    }
    for (float& mean : s.mean) mean /= n;
  }
  OfRows squares{};
  for (std::size_t j = 0; j < x.cols; ++j) {
    for (std::size_t r = 0; r < at_once; ++r) {
      const float d = centred ? rows[r][j] - s.mean[r] : rows[r][j];
      squares[r] = std::fma(d, d, squares[r]);
    }
  }
  for (std::size_t r = 0; r < at_once; ++r) s.inverse[r] = 1.0F / std::sqrt(squares[r] / n + eps);
  return s;
}

// Sums along rows of dy w and of dy w times the normal values.
struct RowSums {
  OfRows sum{}, along{};
};

RowSums sums_of(const std::array<std::vector<float>, at_once>& normal,
                std::span<const float> weight, const Tensor& dy, std::size_t t) {
  const auto rows = rows_from(dy, t);
  const auto n = static_cast<float>(dy.cols);
  RowSums s;
  for (std::size_t j = 0; j < dy.cols; ++j) {
    for (std::size_t r = 0; r < at_once; ++r) {
      const float scaled = rows[r][j] * weight[j];
      s.sum[r] += scaled;
      s.along[r] = std::fma(scaled, normal[r][j], s.along[r]);
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
  std::array<std::vector<float>, at_once> normal;
  normal.fill(std::vector<float>(x.cols));
  for (std::size_t first = 0; first < x.rows; first += at_once) {
    const RowStatistics s = statistics_of(x, first, layer_norm, eps);
    const std::size_t n = std::min(at_once, x.rows - first);
    for (std::size_t r = 0; r < n; ++r) {
      const float *from = x.row(first + r), mean = s.mean[r], inverse = s.inverse[r];
      for (std::size_t j = 0; j < x.cols; ++j) {
        normal[r][j] = (layer_norm ? from[j] - mean : from[j]) * inverse;
      }
    }
    const RowSums sums = sums_of(normal, weight, dy, first);
    for (std::size_t r = 0; r < n; ++r) {
      const float *above = dy.row(first + r), inverse = s.inverse[r], along = sums.along[r];
      const float* of_row = normal[r].data();
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

}  // namespace plumb
