#include "number/encoding.hpp"

#include <cmath>
#include <limits>
#include <string>

#include "number/outcome.hpp"
#include "number/rounding.hpp"

namespace plumb {
namespace {

struct Fields {
  explicit Fields(const Format& format)
      : significand_bits(format.precision - 1),
        has_sign(format.zeros != Zeros::none),
        magnitudes(1U << (format.bits - (has_sign ? 1 : 0))),
        step(1U << significand_bits) {
    if (format.bits > 16) {
      throw Failure("only formats of at most 16 bits have codes here; " + std::string(format.name) +
                    " has " + std::to_string(format.bits));
    }
  }
  int significand_bits;
  bool has_sign;
  std::uint32_t magnitudes;  // number of codes without the sign
  std::uint32_t step;        // codes of a binade
};

// Magnitudes from this code on are no finite numbers.
std::uint32_t first_special(const Format& format, const Fields& f) {
  if (format.overflow == Overflow::to_infinity) return f.magnitudes - f.step;
  if (format.overflow == Overflow::to_largest || format.zeros == Zeros::one) return f.magnitudes;
  return f.magnitudes -
         (format.zeros == Zeros::none ? 1 : static_cast<std::uint32_t>(format.top_gap));
}

double finite(std::uint32_t code, const Format& format, const Fields& f) {
  const auto field = static_cast<int>(code / f.step);
  const std::uint32_t fraction = code % f.step;
  if (format.zeros == Zeros::none) return std::ldexp(1.0, format.emin + field);
  if (field == 0) return fraction * format.spacing_at_zero();
  return std::ldexp(static_cast<double>(f.step + fraction),
                    format.emin + field - 1 - f.significand_bits);
}

}  // namespace

double decode(std::uint32_t code, const Format& format) {
  const Fields f(format);
  const std::uint32_t magnitude = code % f.magnitudes;
  const bool minus = code / f.magnitudes == 1;
  if (format.zeros == Zeros::one && minus && magnitude == 0) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  double x = std::numeric_limits<double>::quiet_NaN();
  const std::uint32_t special = first_special(format, f);
  if (magnitude < special) {
    x = finite(magnitude, format, f);
  } else if (format.overflow == Overflow::to_infinity && magnitude == special) {
    x = std::numeric_limits<double>::infinity();
  }
  return minus ? -x : x;
}

std::uint32_t encode(double x, const Format& format) {
  const Fields f(format);
  const std::uint32_t minus = std::signbit(x) ? f.magnitudes : 0;
  if (std::isnan(x) && format.overflow != Overflow::to_largest) {
    return format.zeros == Zeros::one ? f.magnitudes : f.magnitudes - 1;
  }
  if (std::isinf(x) && format.overflow == Overflow::to_infinity) {
    return minus + first_special(format, f);
  }
  if (!(round_to(x, format) == x)) {
    throw Failure(std::string(format.name) + " cannot hold " + std::to_string(x) + "; round first");
  }
  const double magnitude = std::fabs(x);
  if (format.zeros == Zeros::none) {
    return static_cast<std::uint32_t>(std::ilogb(magnitude) - format.emin);
  }
  if (magnitude < format.smallest_normal()) {
    return minus + static_cast<std::uint32_t>(magnitude / format.spacing_at_zero());
  }
  const int exponent = std::ilogb(magnitude);
  const double significand = std::ldexp(magnitude, f.significand_bits - exponent);
  return minus + static_cast<std::uint32_t>(exponent - format.emin + 1) * f.step +
         static_cast<std::uint32_t>(significand) - f.step;
}

}  // namespace plumb
