#include "probe/chance.hpp"

#include <cmath>

#include "probe/masked.hpp"

namespace plumb::probe {
namespace {

// Is 1 + share 2^-23 rounded up with that probability?
bool rounds_up(const Subject& subject, float share) {
  Tensor a(coins, 2), b(coins, 2, 1.0F);
  for (std::size_t row = 0; row < coins; ++row) {
    a(row, 0) = 1;
    a(row, 1) = share * 0x1p-11F;
    b(row, 1) = 0x1p-12F;
  }
  std::size_t up = 0;
  for (const float sum : sums_of(subject, a, b)) {
    if (sum != 1 && sum != 1 + 0x1p-23F) return false;
    up += sum > 1 ? 1 : 0;
  }
  const double n = coins, p = static_cast<double>(share);
  return std::fabs(static_cast<double>(up) - n * p) < 5 * std::sqrt(n * p * (1 - p));
}

}  // namespace

bool rounds_by_chance(const Subject& subject) {
  return rounds_up(subject, 0.25F) && rounds_up(subject, 0.625F);
}

}  // namespace plumb::probe
