#include "bounds/roundings.hpp"

#include <bit>
#include <cmath>

#include "bounds/number/philox.hpp"

namespace plumb {
namespace {

// ulp(x, format) of a finite float by its exponent bits: transfers need it for every element.
float quick_ulp(float x, int precision, float at_zero) {
  const float power = std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0x7f800000U);
  return std::max(power * std::ldexp(1.0F, 1 - precision), at_zero);
}

void transfer(Matrix<float>& a, Matrix<float>& b, const Format& wire, std::uint64_t key) {
  const auto at_zero = static_cast<float>(std::max(wire.spacing_at_zero(), 0x1p-149));
  Bits bits{};
  for (std::size_t e = 0; e < a.size(); ++e) {
    if (e % 4 == 0) bits = random_block(key, e / 4);
    float& x = a.values[e];
    float& y = b.values[e];
    if (x == 0 && y == 0) continue;
    const float u = static_cast<float>(bits[e % 4]) * 0x1p-32F - 0.5F;
    const float step =
        std::max(quick_ulp(x, wire.precision, at_zero), quick_ulp(y, wire.precision, at_zero));
    x += 4 * u * step;
    y -= 4 * u * step;
  }
}

}  // namespace

void TwinRoundings::before_parts(std::vector<Matrix<float>>& parts, const Format& wire) {
  const std::size_t n = parts.size();
  if (n < 2) return;
  const std::size_t transfers = n == 2 ? 1 : n;
  for (std::size_t i = 0; i < transfers; ++i) {
    transfer(parts[i], parts[(i + 1) % n], wire, key_ + 0x9E3779B97F4A7C15ULL * (i + 1));
  }
}

void DitherRoundings::round(Matrix<double>& x, const Format& to) {
  const std::uint64_t key = key_ + 0x9E3779B97F4A7C15ULL * ++calls_;
  std::vector<double> offset(x.cols);
  for (std::size_t j = 0; j < x.cols; ++j) offset[j] = uniform(key, j) - 0.5;
  for (std::size_t i = 0; i < x.rows; ++i) {
    // A vector has one column: its elements are independent values and get their own offsets.
    const double own = x.cols == 1 ? uniform(key, i) - 0.5 : 0;
    for (std::size_t j = 0; j < x.cols; ++j) {
      double& value = x(i, j);
      if (value == 0) continue;
      const double o = x.cols == 1 ? own : offset[j];
      const double spacing = ulp(value, to);
      value = (std::nearbyint(value / spacing + o) - o) * spacing;
    }
  }
}

}  // namespace plumb
