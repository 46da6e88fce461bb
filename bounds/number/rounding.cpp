#include "bounds/number/rounding.hpp"

#include <bit>
#include <cmath>
#include <limits>

namespace plumb {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// |x| as a whole number of spacings, rounded; `spacing` is a power of two, so the division is
// exact.
double whole_spacings(double magnitude, double spacing, const Cast& cast) {
  const double position = magnitude / spacing;
  const double below = std::floor(position);
  switch (cast.how) {
    case Rounding::toward_zero:
      return below;
    case Rounding::away:
      return std::ceil(position);
    case Rounding::nearest_even:
      return std::nearbyint(position);
    case Rounding::stochastic:
      break;
  }
  // The fraction is compared with a 32-bit random number: exact to 2^-32.
  return position - below > std::ldexp(static_cast<double>(cast.word), -32) ? below + 1 : below;
}

// What a finite magnitude beyond the largest becomes.
double beyond(const Format& to, const Cast& cast) {
  if (cast.saturate || cast.how == Rounding::toward_zero) return to.largest();
  if (to.overflow == Overflow::to_largest) return to.largest();
  return to.overflow == Overflow::to_nan ? nan : infinity;
}

double of_infinity(const Format& to, const Cast& cast) {
  if (cast.saturate || to.overflow == Overflow::to_largest) return to.largest();
  return to.overflow == Overflow::to_nan ? nan : infinity;
}

double round_magnitude(double magnitude, const Format& to, const Cast& cast) {
  if (std::isinf(magnitude)) return of_infinity(to, cast);
  const double spacing = ulp(magnitude, to);
  const double rounded = whole_spacings(magnitude, spacing, cast) * spacing;
  if (rounded > to.largest()) return beyond(to, cast);
  return cast.flush && rounded < to.smallest_normal() ? 0 : rounded;
}

// Nearest even, in FP32 alone and without a branch: normal results by adding half a spacing to the
// bits, subnormal ones by adding and subtracting a number whose ulp is the spacing at zero.
void round_quickly(std::span<float> values, const Format& to) {
  const int drop = 24 - to.precision;
  const std::uint32_t half = (1U << (drop - 1)) - 1, kept = ~((1U << drop) - 1);
  const auto magic = static_cast<float>(std::ldexp(1.5 * to.spacing_at_zero(), 23));
  const auto least = static_cast<float>(to.smallest_normal());
  const auto largest = static_cast<float>(to.largest());
  const auto outside = static_cast<float>(beyond(to, {}));
  const std::uint32_t sign_of_zero = to.zeros == Zeros::both ? 0x80000000U : 0;
  for (float& x : values) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t a = bits & 0x7fffffffU;
    const auto magnitude = std::bit_cast<float>(a);
    const auto normal = std::bit_cast<float>((a + half + ((a >> drop) & 1U)) & kept);
    const float small = (magnitude + magic) - magic;
    float rounded = magnitude < least ? small : normal;
    rounded = rounded > largest ? outside : rounded;
    const std::uint32_t sign = bits & (rounded == 0 ? sign_of_zero : 0x80000000U);
    rounded = std::bit_cast<float>(std::bit_cast<std::uint32_t>(rounded) | sign);
    x = a > 0x7f800000U ? x : rounded;
  }
}

}  // namespace

double round_to(double x, const Format& to, const Cast& cast) {
  if (std::isnan(x)) return x;
  if (to.zeros == Zeros::none) {
    if (!(x > 0)) return nan;
    const double rounded = round_magnitude(x, to, cast);
    return rounded == 0 ? to.smallest_normal() : rounded;
  }
  if (x == 0 && to.zeros == Zeros::both) return x;
  const double rounded = round_magnitude(std::fabs(x), to, cast);
  return rounded == 0 && to.zeros == Zeros::one ? 0 : std::copysign(rounded, x);
}

float round_to(float x, const Format& to, const Cast& cast) {
  return static_cast<float>(round_to(static_cast<double>(x), to, cast));
}

void round_in_place(std::span<float> values, const Format& to) {
  if (to == fp32 || to == fp64) return;
  if (to.zeros != Zeros::none) return round_quickly(values, to);
  for (float& x : values) x = round_to(x, to);
}

}  // namespace plumb
