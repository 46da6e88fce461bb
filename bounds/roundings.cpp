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

// Is x a number of the wire format? (fp32 and bf16, by bits; others are never said to be.)
bool fits(double x, const Format& wire) {
  const auto narrow = static_cast<float>(x);
  if (static_cast<double>(narrow) != x) return false;
  if (wire == fp32) return true;
  return wire == bf16 && (std::bit_cast<std::uint32_t>(narrow) & 0xffffU) == 0;
}

// Elements whose parts and running sums all fit the wire: no rounding happens there in any run, so
// there is nothing to decorrelate. (Sums of few BF16 values in FP32 are the common case.)
std::vector<bool> exact_elements(const std::vector<Matrix<float>>& parts, const Format& wire) {
  std::vector<bool> exact(parts[0].size());
  for (std::size_t e = 0; e < exact.size(); ++e) {
    double sum = 0;
    bool all = true;
    for (std::size_t p = 0; all && p < parts.size(); ++p) {
      const double part = parts[p].values[e], before = sum;
      sum += part;
      const bool no_loss = sum - before == part && sum - part == before;
      all = no_loss && fits(part, wire) && fits(sum, wire);
    }
    exact[e] = all;
  }
  return exact;
}

void transfer(Matrix<float>& a, Matrix<float>& b, const Format& wire, std::uint64_t key,
              const std::vector<bool>& exact) {
  const auto at_zero = static_cast<float>(std::max(wire.spacing_at_zero(), 0x1p-149));
  Bits bits{};
  for (std::size_t e = 0; e < a.size(); ++e) {
    if (e % 4 == 0) bits = random_block(key, e / 4);
    float& x = a.values[e];
    float& y = b.values[e];
    if (exact[e]) continue;
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
  const std::vector<bool> exact = exact_elements(parts, wire);
  const std::size_t transfers = n == 2 ? 1 : n;
  for (std::size_t i = 0; i < transfers; ++i) {
    transfer(parts[i], parts[(i + 1) % n], wire, key_ + 0x9E3779B97F4A7C15ULL * (i + 1), exact);
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
