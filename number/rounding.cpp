#include "number/rounding.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "number/lanes.hpp"
#include "number/philox.hpp"

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

// Stochastically, for formats with FP32's exponents that cut at most 16 bits: up where these exceed
// as many random ones, that is where adding the complement of those carries.
class StochasticBits {
 public:
  explicit StochasticBits(const Format& to) : drop_(24 - to.precision) {}
  void operator()(Floats& x, const Words& half, Words&) const {
    const Words rounded = ((Words)x + ((half ^ 0xffffU) >> (16 - drop_))) & (~0U << drop_);
    x = x == x ? (Floats)rounded : x;
  }

 private:
  int drop_;
};

// Rounds for narrower exponents, in whole 2^-16 of a spacing. Where 16 bits of the fraction equal
// the random ones, the bits behind decide: then the sum of them and the others' complement ends in
// 16 ones, and `nearest_tie`, which collects the largest such end, is at least `tie`.
constexpr std::uint32_t tie = 0xffff0000U;
class StochasticByScaling {
 public:
  explicit StochasticByScaling(const Format& to)
      : least_(static_cast<std::uint32_t>(to.emin + 127) << 23),
        most_(static_cast<std::uint32_t>(to.emax + 1 + 127) << 23),
        below_(static_cast<std::uint32_t>(to.precision - 1) << 23),
        largest_(static_cast<float>(to.largest())),
        outside_(static_cast<float>(beyond(to, {.how = Rounding::stochastic}))),
        one_zero_(to.zeros == Zeros::one) {}

  void operator()(Floats& x, const Words& half, Words& nearest_tie) const {
    const Words bits = (Words)x;
    Words a = bits & 0x7fffffffU;
    a = a < most_ ? a : Words{} + most_;  // beyond the format, and so is what it is rounded to
    Words binade = a & 0x7f800000U;
    binade = binade > least_ ? binade : Words{} + least_;
    const Words spacing = binade - below_;
    const Words inverse = ((127U + 127U + 16U) << 23) - spacing;  // 2^16 / spacing
    const Ints parts = __builtin_convertvector((Floats)a * (Floats)inverse, Ints);
    const Ints sum = parts + (Ints)(half ^ 0xffffU);
    const Words fraction = (Words)sum << 16;
    nearest_tie = nearest_tie > fraction ? nearest_tie : fraction;
    Floats rounded = __builtin_convertvector(sum >> 16, Floats) * (Floats)spacing;
    rounded = rounded > largest_ ? outside_ + Floats{} : rounded;
    Words sign = bits & 0x80000000U;
    if (one_zero_) sign = rounded == 0 ? Words{} : sign;
    rounded = (Floats)((Words)rounded | sign);
    x = x == x ? rounded : x;
  }

 private:
  std::uint32_t least_, most_, below_;
  float largest_, outside_;
  bool one_zero_;
};

void round_slowly(float* x, std::size_t n, const Format& to, std::uint64_t key,
                  std::uint64_t first) {
  for (std::size_t i = 0; i < n; ++i) {
    x[i] = round_to(x[i], to, {.how = Rounding::stochastic, .word = random_word(key, first + i)});
  }
}

// One group of 128 values in place. Returns whether all were decided; if not, none was changed.
template <class Kind>
bool round_group(float* x, const Kind& rounded, const std::array<Words, 8>& halves) {
  std::array<Floats, 8> y;
  Words nearest_tie{};
  for (std::size_t i = 0; i < y.size(); ++i) {
    fetch_ahead(x + lanes * i);
    std::memcpy(&y[i], x + lanes * i, sizeof y[i]);
    rounded(y[i], halves[i], nearest_tie);
  }
  std::array<std::uint32_t, lanes> ends;
  std::memcpy(ends.data(), &nearest_tie, sizeof nearest_tie);
  if (*std::max_element(ends.begin(), ends.end()) >= tie) [[unlikely]]
    return false;
  std::memcpy(x, y.data(), sizeof y);
  return true;
}

template <class Kind>
void round_groups(std::span<float> values, const Format& to, std::uint64_t key,
                  std::uint64_t first) {
  const Kind rounded(to);
  const RandomHalves random(key);
  for (std::size_t done = 0; done < values.size();) {
    const std::uint64_t group = (first + done) / group_size;
    const std::size_t skip = (first + done) % group_size;
    const std::size_t n = std::min(group_size - skip, values.size() - done);
    float* x = values.data() + done;
    std::array<float, group_size> part;
    const bool whole = n == group_size;
    if (!whole) {
      part.fill(0);
      std::copy_n(x, n, &part[skip]);
    }
    const bool decided = round_group(whole ? x : part.data(), rounded, random(group));
    if (!whole && decided) std::copy_n(&part[skip], n, x);
    if (!decided) round_slowly(x, n, to, key, first + done);
    done += n;
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

void round_stochastically(std::span<float> values, const Format& to, std::uint64_t key,
                          std::uint64_t first) {
  if (to == fp32 || to == fp64) return;
  if (to.zeros == Zeros::none) return round_slowly(values.data(), values.size(), to, key, first);
  if (to.emin == fp32.emin) return round_groups<StochasticBits>(values, to, key, first);
  round_groups<StochasticByScaling>(values, to, key, first);
}

void round_in_place(std::span<float> values, const Format& to) {
  if (to == fp32 || to == fp64) return;
  if (to.emin == fp32.emin) return round_bits(values, to);
  if (to.zeros != Zeros::none) return round_by_adding(values, to);
  for (float& x : values) x = round_to(x, to);
}

}  // namespace plumb
