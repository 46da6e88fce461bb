#include <cmath>

#include "kernels/ops.hpp"

namespace plumb {
namespace {

// Centred values times the inverse deviation; RMSNorm does not centre.
struct RowStatistics {
  float mean = 0;
  float inverse = 0;
};

RowStatistics statistics_of(std::span<const float> x, bool centred, float eps) {
  const auto n = static_cast<float>(x.size());
  RowStatistics s;
  if (centred) {
    float sum = 0;
    for (const float v : x) sum += v;
    s.mean = sum / n;
  }
  float squares = 0;
  for (const float v : x) {
    const float d = centred ? v - s.mean : v;
    squares = std::fma(d, d, squares);
  }
  s.inverse = 1.0F / std::sqrt(squares / n + eps);
  return s;
}

}  // namespace

Tensor norm_forward(const Tensor& x, std::span<const float> weight, std::span<const float> bias,
                    float eps) {
  const bool centred = !bias.empty();
  Tensor y(x.rows, x.cols);
  for (std::size_t t = 0; t < x.rows; ++t) {
    const RowStatistics s = statistics_of({x.row(t), x.cols}, centred, eps);
    for (std::size_t j = 0; j < x.cols; ++j) {
      const float d = centred ? x(t, j) - s.mean : x(t, j);
      y(t, j) = d * s.inverse * weight[j];
      if (centred) y(t, j) += bias[j];
    }
  }
  return y;
}

NormGradients norm_backward(const Tensor& x, std::span<const float> weight, const Tensor& dy,
                            bool layer_norm, float eps) {
  NormGradients g{Tensor(x.rows, x.cols), Tensor(x.cols, 1), {}};
  const auto n = static_cast<float>(x.cols);
  std::vector<float> normal(x.cols);
  for (std::size_t t = 0; t < x.rows; ++t) {
    const RowStatistics s = statistics_of({x.row(t), x.cols}, layer_norm, eps);
    float sum = 0;
    float along = 0;
    for (std::size_t j = 0; j < x.cols; ++j) {
      normal[j] = (layer_norm ? x(t, j) - s.mean : x(t, j)) * s.inverse;
      const float scaled = dy(t, j) * weight[j];
      if (layer_norm) sum += scaled;
      along = std::fma(scaled, normal[j], along);
    }
    sum /= n;
    along /= n;
    for (std::size_t j = 0; j < x.cols; ++j) {
      float d = dy(t, j) * weight[j];
      if (layer_norm) d -= sum;
      g.dx(t, j) = s.inverse * (d - normal[j] * along);
      g.weight.values[j] += dy(t, j) * normal[j];
    }
  }
  if (layer_norm) g.bias = sum_of_rows(dy);
  return g;
}

}  // namespace plumb
