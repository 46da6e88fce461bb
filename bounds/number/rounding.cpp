#include "bounds/number/rounding.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "bounds/number/lanes.hpp"
#include "bounds/number/philox.hpp"

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

// Nearest even for formats with FP32's exponents: half a spacing added to the bits, the rest cut.
// Subnormal numbers lie on the same grid of bits, and what carries over the top is infinity.
void round_bits(std::span<float> values, const Format& to) {
  const int drop = 24 - to.precision;
  const std::uint32_t half = (1U << (drop - 1)) - 1, kept = ~((1U << drop) - 1);
  by_lanes(values.data(), values.size(), [&](Floats& x, std::size_t) {
    const Words bits = (Words)x;
    const Words rounded = (bits + half + ((bits >> drop) & 1U)) & kept;
    x = (bits & 0x7fffffffU) > 0x7f800000U ? x : (Floats)rounded;
  });
}

// Nearest even for narrower exponents: adding and subtracting the power of two whose ulp is the
// spacing at x. Its exponent cannot overflow: what is so large is beyond the format anyway.
void round_by_adding(std::span<float> values, const Format& to) {
  const std::uint32_t least = static_cast<std::uint32_t>(to.emin + 127) << 23;
  const std::uint32_t most = static_cast<std::uint32_t>(to.emax + 2 + 127) << 23;
  const std::uint32_t up = static_cast<std::uint32_t>(24 - to.precision) << 23;
  const auto largest = static_cast<float>(to.largest());
  const auto outside = static_cast<float>(beyond(to, {}));
  const bool one_zero = to.zeros == Zeros::one;
  by_lanes(values.data(), values.size(), [&](Floats& x, std::size_t) {
    const Words sign = (Words)x & 0x80000000U;
    const Words a = (Words)x & 0x7fffffffU;
    Words binade = a & 0x7f800000U;
    binade = binade > least ? binade : Words{} + least;
    binade = binade < most ? binade : Words{} + most;
    const Floats power = (Floats)(binade + up);
    Floats rounded = ((Floats)a + power) - power;
    rounded = rounded > largest ? outside + Floats{} : rounded;
    const Words result = (Words)rounded | sign;
    x = (Floats)(one_zero ? ((Words)rounded == 0 ? Words{} : result) : result);
  });
}

// Stochastic rounding in FP32 and integers, without a branch. Up where the part of the significand
// that is cut, as a fraction of the spacing, exceeds the word: the comparison of whole_spacings().
// Right for zeros and for finite |x| of at least 2^-7 spacings at zero; is_odd() knows the others.
class Stochastic {
 public:
  explicit Stochastic(const Format& to)
      : precision_(to.precision),
        emin_(to.emin),
        largest_(static_cast<float>(to.largest())),
        outside_(static_cast<float>(beyond(to, {.how = Rounding::stochastic}))),
        sign_of_zero_(to.zeros == Zeros::both ? 0x80000000U : 0),
        least_(std::bit_cast<std::uint32_t>(
            std::ldexp(static_cast<float>(to.spacing_at_zero()), -7))) {}

  bool is_odd(float x) const {
    const std::uint32_t a = std::bit_cast<std::uint32_t>(x) & 0x7fffffffU;
    return a >= 0x7f800000U || (a != 0 && a < least_);
  }

  void operator()(Floats& x, const Words& word) const {
    const Words bits = (Words)x;
    const Words a = bits & 0x7fffffffU;
    const Ints stored = (Ints)(a >> 23);  // exponent + 127; 0 of subnormal numbers
    const Words significand = (a & 0x7fffffU) | ((Words)(stored > 0) & 0x800000U);
    const Ints exponent = (stored > 1 ? stored : Ints{} + 1) - 127;
    const Ints below = emin_ - exponent;
    const Ints cut = 24 - precision_ + (below > 0 ? below : Ints{});
    const Words shift = (Words)(cut < 31 ? cut : Ints{} + 31);
    const Words one = Words{} + 1;
    const Words part = significand & ((one << shift) - 1);
    const Ints spacings = (Ints)(significand >> shift) - (Ints)(part > (word >> (32 - shift)));
    const Ints unit = (below > 0 ? Ints{} + emin_ : exponent) - precision_ + 1;
    // 2^unit as a product of two powers that are normal numbers for every format.
    const Ints over = unit > -126 ? unit : Ints{} - 126,
               under = unit + 126 < 0 ? unit + 126 : Ints{};
    const Floats spacing = (Floats)((over + 127) << 23) * (Floats)((under + 127) << 23);
    Floats rounded = __builtin_convertvector(spacings, Floats) * spacing;
    rounded = rounded > largest_ ? outside_ + Floats{} : rounded;
    const Words zero_sign = bits & sign_of_zero_, sign = bits & 0x80000000U;
    x = (Floats)((Words)rounded | (rounded == 0 ? zero_sign : sign));
  }

 private:
  int precision_, emin_;
  float largest_, outside_;
  std::uint32_t sign_of_zero_, least_;
};

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
  constexpr std::size_t block = 1024;
  const Stochastic quickly(to);
  std::array<std::uint32_t, block + lanes> words{};  // lanes beyond the end are read, not used
  std::array<float, block> before;
  for (std::size_t done = 0; done < values.size();) {
    const std::uint64_t from = (first + done) / 4 * 4;  // words come in fours
    random_words(key, from, std::span(words).first(block));
    const std::size_t skip = first + done - from;
    const std::size_t n = std::min(block - skip, values.size() - done);
    float* x = values.data() + done;
    std::copy_n(x, n, before.begin());
    bool odd = to.zeros == Zeros::none;
    for (std::size_t i = 0; i < n; ++i) odd = quickly.is_odd(x[i]) || odd;
    by_lanes(x, n, [&](Floats& v, std::size_t i) {
      Words word;
      std::memcpy(&word, &words[skip + i], sizeof word);
      quickly(v, word);
    });
    for (std::size_t i = 0; odd && i < n; ++i) {
      if (to.zeros != Zeros::none && !quickly.is_odd(before[i])) continue;
      x[i] = round_to(before[i], to, {.how = Rounding::stochastic, .word = words[skip + i]});
    }
    done += n;
  }
}

void round_in_place(std::span<float> values, const Format& to) {
  if (to == fp32 || to == fp64) return;
  if (to.emin == fp32.emin) return round_bits(values, to);
  if (to.zeros != Zeros::none) return round_by_adding(values, to);
  for (float& x : values) x = round_to(x, to);
}

}  // namespace plumb
