#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "kernels/ops.hpp"
#include "number/exponential.hpp"
#include "number/rounding.hpp"

namespace plumb::kernels {
namespace {

constexpr float two_root_two_over_pi = 1.5957691216057308F;
constexpr float cubic = 0.044715F;
constexpr float three_cubic = static_cast<float>(3 * 0.044715);

float logistic(float z) { return 1.0F / (1.0F + exp(-z)); }

float gelu_gate(float x) { return logistic(two_root_two_over_pi * (x + cubic * x * x * x)); }

}  // namespace

void round_to_format(std::span<float> x, const Format& format) {
  if (format == fp32) return;
  if (!(format == bf16)) {
    round_in_place(x, format);
    return;
  }
  for (float& value : x) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t nan = (bits << 1) > 0xff000000U ? 0x400000U : 0U;
    const std::uint32_t up = nan != 0 ? nan : 0x7fffU + ((bits >> 16) & 1U);
    value = std::bit_cast<float>((nan != 0 ? bits | up : bits + up) & 0xffff0000U);
  }
}

float largest_finite(std::span<const float> x) {
  float largest = 0;
  for (const float v : x) {
    if (std::isfinite(v)) largest = std::max(largest, std::fabs(v));
  }
  return largest;
}

float largest_magnitude(std::span<const float> x) {
  std::uint32_t largest = 0;  // bits of magnitudes are in their order
  for (const float v : x) largest = std::max(largest, std::bit_cast<std::uint32_t>(v) << 1);
  return std::bit_cast<float>(largest >> 1);
}

float scale_to_fit(float amax, const Format& format) {
  if (!(amax > 0) || std::isinf(amax)) return 1;
  const auto largest = static_cast<float>(format.largest());
  float scale = std::ldexp(1.0F, std::min(std::ilogb(largest) - std::ilogb(amax), 126));
  if (amax * scale > largest) scale /= 2;
  return scale;
}

void quantize(std::span<float> x, float scale, const Format& format, bool saturating) {
  const float back = 1 / scale;
  for (float& v : x) v *= scale;
  if (saturating) saturate(x, format);
  round_to_format(x, format);
  for (float& v : x) v *= back;
}

Tensor gelu_forward(const Tensor& x) {
  Tensor y(x.rows, x.cols, to_be_written);
  for (std::size_t i = 0; i < y.size(); ++i) y.values[i] = x.values[i] * gelu_gate(x.values[i]);
  return y;
}

Tensor gelu_backward(const Tensor& x, const Tensor& dy) {
  Tensor dx(x.rows, x.cols, to_be_written);
  for (std::size_t i = 0; i < dx.size(); ++i) {
    const float v = x.values[i];
    const float gate = gelu_gate(v);
    const float inner = two_root_two_over_pi * (1.0F + three_cubic * v * v);
    dx.values[i] = dy.values[i] * (gate + v * gate * (1.0F - gate) * inner);
  }
  return dx;
}

Tensor swiglu_forward(const Tensor& x) {
  Tensor y(x.rows, x.cols / 2, to_be_written);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const float g = x.values[2 * i];
    y.values[i] = g * logistic(g) * x.values[2 * i + 1];
  }
  return y;
}

Tensor swiglu_backward(const Tensor& x, const Tensor& dy) {
  Tensor dx(x.rows, x.cols, to_be_written);
  for (std::size_t i = 0; i < dy.size(); ++i) {
    const float g = x.values[2 * i];
    const float s = logistic(g);
    dx.values[2 * i] = dy.values[i] * x.values[2 * i + 1] * (s + g * s * (1.0F - s));
    dx.values[2 * i + 1] = dy.values[i] * (g * s);
  }
  return dx;
}

void add_row(Tensor& x, std::span<const float> bias) {
  for (std::size_t t = 0; t < x.rows; ++t) {
    float* row = x.row(t);
    for (std::size_t j = 0; j < x.cols; ++j) row[j] += bias[j];
  }
}

Tensor sum_of(const Tensor& x, const Tensor& y) {
  Tensor sum(x.rows, x.cols, to_be_written);
  for (std::size_t i = 0; i < sum.size(); ++i) sum.values[i] = x.values[i] + y.values[i];
  return sum;
}

void add_to(Tensor& x, const Tensor& y) {
  for (std::size_t i = 0; i < x.size(); ++i) x.values[i] += y.values[i];
}

Tensor sum_of_rows(const Tensor& x) {
  Tensor total(x.cols, 1);
  for (std::size_t t = 0; t < x.rows; ++t) {
    for (std::size_t j = 0; j < x.cols; ++j) total.values[j] += x(t, j);
  }
  return total;
}

double sum_of_squares(std::span<const float> x) {
  constexpr std::size_t at_once = 32;  // sums, none of which waits for another
  std::array<double, at_once> sums{};
  std::size_t i = 0;
  for (; i + at_once <= x.size(); i += at_once) {
    for (std::size_t l = 0; l < at_once; ++l) {
      const auto v = static_cast<double>(x[i + l]);
      sums[l] += v * v;
    }
  }
  for (; i < x.size(); ++i) sums[0] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

AdamState adam_step(const AdamSettings& how, const Tensor& gradient, const Tensor& master,
                    const Tensor& average, const Tensor& square) {
  const auto b1 = static_cast<float>(how.beta1);
  const auto b2 = static_cast<float>(how.beta2);
  const auto fix1 = static_cast<float>(1 - std::pow(how.beta1, how.step));
  const auto fix2 = static_cast<float>(1 - std::pow(how.beta2, how.step));
  const auto rate = static_cast<float>(how.rate);
  const auto eps = static_cast<float>(how.eps);
  const auto decay = static_cast<float>(how.rate * how.weight_decay);
  const auto unwritten = [&] { return Tensor(master.rows, master.cols, to_be_written); };
  AdamState next{unwritten(), unwritten(), unwritten()};
  // In blocks that stay in the first cache: in one loop over seven tensors a compiler does not know
  // that none overlaps another, and works number by number.
  constexpr std::size_t at_once = 1024;
  for (std::size_t first = 0; first < master.size(); first += at_once) {
    const std::size_t end = std::min(master.size(), first + at_once);
    for (std::size_t i = first; i < end; ++i) {
      const float g = gradient.values[i];
      next.average.values[i] = b1 * average.values[i] + (1.0F - b1) * g;
      next.square.values[i] = b2 * square.values[i] + (1.0F - b2) * g * g;
    }
    for (std::size_t i = first; i < end; ++i) {
      const float x = master.values[i], decayed = decay != 0 ? x - decay * x : x;
      const float root = std::sqrt(next.square.values[i] / fix2);
      next.master.values[i] = decayed - rate * (next.average.values[i] / fix1) / (root + eps);
    }
  }
  return next;
}

}  // namespace plumb::kernels
