#include "bounds/roundings.hpp"

#include <bit>
#include <cmath>

#include "bounds/number/philox.hpp"

namespace plumb {
namespace {

// ulp(x, format) of a finite float by its exponent bits: transfers need it for every element.
float quick_ulp(float x, float relative, float at_zero) {
  const float power = std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0x7f800000U);
  return std::max(power * relative, at_zero);
}

// Elements whose parts and running sums all are numbers of the wire format: no rounding happens
// there in any run, so there is nothing to decorrelate. (Sums of few BF16 values in FP32 are the
// common case.) Only FP32 and BF16 wires are looked at; the sums' errors come from TwoSum, which is
// exact.
std::vector<std::uint8_t> exact_elements(const std::vector<Matrix<float>>& parts,
                                         const Format& wire) {
  const bool known = wire == fp32 || wire == bf16;
  const std::uint32_t lost_bits = wire == bf16 ? 0xffffU : 0U;
  const auto fits = [lost_bits](float x) {
    return (std::bit_cast<std::uint32_t>(x) & lost_bits) == 0;
  };
  auto sum = parts[0].values;
  std::vector<std::uint8_t> exact(sum.size());
  for (std::size_t e = 0; e < exact.size(); ++e) exact[e] = known && fits(sum[e]) ? 1 : 0;
  for (std::size_t p = 1; p < parts.size(); ++p) {
    const float* part = parts[p].values.data();
    for (std::size_t e = 0; e < exact.size(); ++e) {
      const float a = sum[e], b = part[e], s = a + b;
      const float t = s - a;
      const bool lossless = (a - (s - t)) + (b - t) == 0;
      exact[e] = static_cast<std::uint8_t>(exact[e] & (lossless && fits(b) && fits(s) ? 1 : 0));
      sum[e] = s;
    }
  }
  return exact;
}

void transfer(Matrix<float>& a, Matrix<float>& b, const Format& wire, std::uint64_t key,
              const std::vector<std::uint8_t>& exact) {
  const auto at_zero = static_cast<float>(std::max(wire.spacing_at_zero(), 0x1p-149));
  const float relative = std::ldexp(1.0F, 1 - wire.precision);  // of a binade's lower end
  Bits bits{};
  for (std::size_t e = 0; e < a.size(); ++e) {
    if (e % 4 == 0) bits = random_block(key, e / 4);
    float& x = a.values[e];
    float& y = b.values[e];
    if (exact[e] != 0) continue;
    const float u = static_cast<float>(bits[e % 4]) * 0x1p-32F - 0.5F;
    const float step = std::max(quick_ulp(x, relative, at_zero), quick_ulp(y, relative, at_zero));
    x += 4 * u * step;
    y -= 4 * u * step;
  }
}

}  // namespace

void RealRoundings::round_as(Matrix<float>& x, const Format& to, const Manner& manner) {
  if (manner.saturate) {
    const auto largest = static_cast<float>(to.largest());
    for (float& v : x.values) v = v > largest ? largest : v < -largest ? -largest : v;
  }
  if (manner.key) {
    round_stochastically(x.values, to, *manner.key);
  } else {
    round_in_place(x.values, to);
  }
}

void TwinRoundings::before_parts(std::vector<Matrix<float>>& parts, const Format& wire) {
  const std::size_t n = parts.size();
  if (n < 2) return;
  const std::vector<std::uint8_t> exact = exact_elements(parts, wire);
  const std::size_t transfers = n == 2 ? 1 : n;
  for (std::size_t i = 0; i < transfers; ++i) {
    transfer(parts[i], parts[(i + 1) % n], wire, key_ + 0x9E3779B97F4A7C15ULL * (i + 1), exact);
  }
}

void RecordedRoundings::round(Matrix<float>& x, const Format& to) {
  const Tensor before = x;
  RealRoundings::round(x, to);
  keep(before, x);
}

void RecordedRoundings::round_as(Matrix<float>& x, const Format& to, const Manner& manner) {
  const Tensor before = x;
  RealRoundings::round_as(x, to, manner);
  keep(before, x);
}

void RecordedRoundings::keep(const Tensor& before, const Tensor& after) {
  Tensor error = after;
  for (std::size_t e = 0; e < error.size(); ++e) error.values[e] -= before.values[e];
  errors_.push_back(std::move(error));
}

void SignedRoundings::round(Matrix<double>& x, const Format&) {
  const Tensor& error = errors_.at(calls_);
  const double sign = uniform(key_, calls_++) < 0.5 ? -1 : 1;
  for (std::size_t e = 0; e < x.size(); ++e) {
    if (x.values[e] == 0) continue;
    x.values[e] += sign * static_cast<double>(error.values[e]);
  }
}

}  // namespace plumb
