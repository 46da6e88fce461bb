#include "number/rounding.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "number/lanes.hpp"

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
  // 32 random bits are added to the fraction, and what carries goes up: exact to 2^-32.
  return position - below >= 1 - std::ldexp(static_cast<double>(cast.word), -32) ? below + 1
                                                                                 : below;
}

// Returns the result of a finite magnitude beyond the largest.
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

// Nearest even for formats with FP32's exponents: half a spacing added to the bits, the rest cut.
// Subnormal numbers lie on the same grid of bits, and what carries over the top is infinity.
void round_bits(std::span<float> values, const Format& to) {
  const int drop = 24 - to.precision;
  const std::uint32_t half = (1U << (drop - 1)) - 1, kept = ~((1U << drop) - 1);
  by_lanes(values.data(), values.size(), [&](Floats& x, std::size_t) {
    const Words bits = (Words)x;
    const Words rounded = (bits + half + ((bits >> drop) & 1U)) & kept;
    x = x == x ? (Floats)rounded : x;
  });
}

// The largest float that is not rounded beyond the format.
float last_inside(const Format& to) {
  const double middle = to.largest() + ulp(to.largest(), to) / 2;
  const auto x = static_cast<float>(middle);
  return round_magnitude(middle, to, {}) == to.largest() ? x : std::nextafter(x, 0.0F);
}

// Nearest even for narrower exponents: adding and subtracting the power of two whose ulp is the
// spacing at x. Where that power would overflow, x lies beyond the format anyway.
void round_by_adding(std::span<float> values, const Format& to) {
  const std::uint32_t least = static_cast<std::uint32_t>(to.emin + 127) << 23;
  const std::uint32_t up = static_cast<std::uint32_t>(24 - to.precision) << 23;
  const float last =
      to.overflow == Overflow::to_largest ? static_cast<float>(to.largest()) : last_inside(to);
  const auto outside = static_cast<float>(beyond(to, {}));
  const bool one_zero = to.zeros == Zeros::one;
  by_lanes(values.data(), values.size(), [&](Floats& x, std::size_t) {
    const Words sign = (Words)x & 0x80000000U;
    const Floats a = (Floats)((Words)x & 0x7fffffffU);
    Words binade = (Words)x & 0x7f800000U;
    binade = binade > least ? binade : Words{} + least;
    const Floats power = (Floats)(binade + up);
    Floats rounded = (a + power) - power;
    rounded = a > last ? outside + Floats{} : rounded;
    const Words result = (Words)rounded | sign;
    x = (Floats)(one_zero ? (rounded == 0 ? Words{} : result) : result);
  });
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
  if (to.emin == fp32.emin) return round_bits(values, to);
  if (to.zeros != Zeros::none) return round_by_adding(values, to);
  for (float& x : values) x = round_to(x, to);
}

}  // namespace plumb
