#include "trace/updates.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "trace/last_bit.hpp"
#include "trace/whole.hpp"

namespace plumb::trace {
namespace {

// How many numbers are off by more than four ulps. One last bit of what scales a gradient, as a clip does,
// is two of its square, and roundings behind it two more.
std::size_t many_ulps_off(const Whole& x, const Whole& r) {
  const Format& format = r.format;
  const float relative = std::ldexp(2.0F, -format.precision);
  const auto at_zero = static_cast<float>(format.spacing_at_zero());
  std::size_t many = 0;
  Reading of_x(x), of_r(r);
  by_stretches(r.size(), [&](std::size_t first, std::size_t n) {
    const float *a = of_x(first, n), *b = of_r(first, n);
    for (std::size_t e = 0; e < n; ++e) {
      const float binade = std::bit_cast<float>(std::bit_cast<std::uint32_t>(b[e]) & 0x7f800000U);
      many += std::fabs(a[e] - b[e]) > 4 * std::max(binade * relative, at_zero) ? 1 : 0;
    }
    return true;
  });
  return many;
}

}  // namespace

bool twins_explain(const Difference& seen, const TwinsRead& twins, const Run& reference,
                   const Run& candidate, const std::string& id) {
  constexpr std::size_t far = 10;
  const Whole &r = reference.values.at(id), &x = candidate.values.at(id);
  if (!x.has_shape_of(r)) return true;
  std::size_t many = 1;
  const double bit = last_bit(r);
  double squares = bit * bit, largest = bit;
  for (const Run& twin : twins.runs()) {
    const auto found = twin.values.find(id);
    if (found == twin.values.end() || !found->second.has_shape_of(r)) return true;
    const Difference d = difference(found->second, r);
    squares = std::max(squares, d.squares);
    largest = std::max(largest, static_cast<double>(d.largest));
    many = std::max(many, many_ulps_off(found->second, r));
  }
  return seen.squares <= far * far * squares &&
         static_cast<double>(seen.largest) <= far * largest && many_ulps_off(x, r) <= far * many;
}

}  // namespace plumb::trace
