#include "trace/last_bit.hpp"

#include <algorithm>
#include <cmath>

#include "number/outcome.hpp"
#include "number/rounding.hpp"

namespace plumb::trace {
namespace {

// Of 8 bits and fewer the last is a sixteenth of a number or more, and of a scale that is a power of two
// all of it: a factor, which nobody leaves unseen.
bool has_last_bits(const Format& format) { return format.precision >= bf16.precision; }

// From the smaller of two numbers to the next of their format.
double spacing_between(double x, double y, const Format& format) {
  const double low = std::min(std::abs(x), std::abs(y));
  const double spacing = low == 0 ? 0 : std::ldexp(1.0, std::ilogb(low) - format.precision + 1);
  return std::max(spacing, format.spacing_at_zero());
}

}  // namespace

double last_bit(const Whole& x) {
  float largest = 0;
  Reading read(x);
  by_stretches(x.size(), [&](std::size_t first, std::size_t n) {
    const float* here = read(first, n);
    for (std::size_t e = 0; e < n; ++e) largest = std::max(largest, std::fabs(here[e]));
    return true;
  });
  if (!std::isfinite(largest)) return infinite;
  const Format& format = format_held(largest, x.format);
  return has_last_bits(format) ? ulp(largest, format) : 0;
}

bool one_last_bit_apart(const Whole& of_x, const Whole& of_y) {
  if (of_x.size() != 1 || of_y.size() != 1) return false;
  const double x = *Reading(of_x)(0, 1), y = *Reading(of_y)(0, 1);
  if (!std::isfinite(x) || !std::isfinite(y)) return false;
  // A format that the numbers do not have is no measure of them.
  const Format& format = format_held(y, format_held(x, of_x.format));
  return has_last_bits(format) && std::abs(x - y) <= spacing_between(x, y, format);
}

}  // namespace plumb::trace
