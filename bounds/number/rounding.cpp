#include "bounds/number/rounding.hpp"

#include <bit>
#include <cmath>
#include <limits>

namespace plumb {
namespace {

// |x| as a whole number of spacings, rounded; `spacing` is a power of two, so the division is
// exact.
double whole_spacings(double magnitude, double spacing, Rounding how, std::uint32_t word) {
  const double position = magnitude / spacing;
  if (how == Rounding::toward_zero) return std::trunc(position);
  if (how == Rounding::nearest_even) return std::nearbyint(position);
  const double below = std::floor(position);
  // The fraction is compared with a 32-bit random number: exact to 2^-32.
  return position - below > std::ldexp(static_cast<double>(word), -32) ? below + 1 : below;
}

double beyond(double sign, const Format& to, Rounding how, bool saturate) {
  if (saturate || how == Rounding::toward_zero) return std::copysign(to.largest(), sign);
  if (to.overflow == Overflow::to_nan) return std::numeric_limits<double>::quiet_NaN();
  return std::copysign(std::numeric_limits<double>::infinity(), sign);
}

float round_to_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t rounded = bits + 0x7fffU + ((bits >> 16) & 1U);
  const bool nan = (bits & 0x7fffffffU) > 0x7f800000U;
  return std::bit_cast<float>((nan ? bits | 0x400000U : rounded) & 0xffff0000U);
}

}  // namespace

double round_to(double x, const Format& to, Rounding how, bool saturate, std::uint32_t word) {
  if (std::isnan(x) || x == 0) return x;
  if (std::isinf(x)) {
    if (to.overflow == Overflow::to_nan || saturate) return beyond(x, to, how, saturate);
    return x;
  }
  const double magnitude = std::fabs(x);
  const double spacing = ulp(magnitude, to);
  const double rounded = whole_spacings(magnitude, spacing, how, word) * spacing;
  if (rounded > to.largest()) return beyond(x, to, how, saturate);
  return std::copysign(rounded, x);
}

float round_to(float x, const Format& to, Rounding how, bool saturate, std::uint32_t word) {
  return static_cast<float>(round_to(static_cast<double>(x), to, how, saturate, word));
}

void round_in_place(std::span<float> values, const Format& to) {
  if (to == fp32 || to == fp64) return;
  if (to == bf16) {
    for (float& x : values) x = round_to_bf16(x);
    return;
  }
  for (float& x : values) x = round_to(x, to);
}

}  // namespace plumb
