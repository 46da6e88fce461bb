#include "trace/difference.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "number/lanes.hpp"

namespace plumb::trace {
namespace {

constexpr std::size_t block = 16 * lanes;      // FP32 sums stay this short
constexpr std::size_t ahead = 512;             // elements to prefetch
constexpr float least = 1e-20F, most = 1e30F;  // block sums outside have lost bits

struct Block {
  Floats squares{}, energy{}, largest{};
  Ints over{};  // minus the count
  Words ulps{};
  Words differ{}, nonzero{};  // bits of a - b and of b, signs dropped, joined
};

// Does not hold where something is not finite: then `squares` or `energy` is not finite either.
inline void add_block(const float* a, const float* b, const Closeness& close, Block& sum) {
  for (std::size_t i = 0; i < block; i += lanes) {
    __builtin_prefetch(a + i + ahead);
    __builtin_prefetch(b + i + ahead);
    Floats x, y;
    std::memcpy(&x, a + i, sizeof x);
    std::memcpy(&y, b + i, sizeof y);
    const Floats d = x - y;
    sum.squares += d * d;
    sum.energy += y * y;
    const Words size_bits = (Words)d & 0x7fffffffU, y_bits = (Words)y & 0x7fffffffU;
    sum.differ |= size_bits;
    sum.nonzero |= y_bits;
    const Floats size = (Floats)size_bits;
    sum.largest = size > sum.largest ? size : sum.largest;
    sum.over += size > close.absolute + close.relative * (Floats)y_bits;
    const Ints minus_x = (Ints)x >> 31, minus_y = (Ints)y >> 31;  // all bits, or none
    const Ints u = ((Ints)x ^ (minus_x & 0x7fffffff)) - minus_x;  // as place() below
    const Ints v = ((Ints)y ^ (minus_y & 0x7fffffff)) - minus_y;
    const Words apart = u > v ? (Words)u - (Words)v : (Words)v - (Words)u;
    sum.ulps = apart > sum.ulps ? apart : sum.ulps;
  }
}

// Ordered like the numbers, both zeros in one place: differences are distances in numbers.
std::int32_t place(float x) {
  const auto s = std::bit_cast<std::int32_t>(x);
  const std::int32_t minus = s >> 31;
  return (s ^ (minus & 0x7fffffff)) - minus;
}

std::uint32_t distance(float a, float b) {
  const std::int32_t x = place(a), y = place(b);
  return static_cast<std::uint32_t>(std::max(x, y)) - static_cast<std::uint32_t>(std::min(x, y));
}

// Adds any elements, one by one, in FP64.
void add_slowly(const float* a, const float* b, std::size_t n, const Closeness& close,
                Difference& sum) {
  for (std::size_t i = 0; i < n; ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) {
      ++sum.non_finite;
      continue;
    }
    const double d = static_cast<double>(a[i]) - b[i];
    const float size = std::fabs(a[i] - b[i]);
    sum.squares += d * d;
    sum.energy += static_cast<double>(b[i]) * b[i];
    sum.largest = std::max(sum.largest, size);
    sum.ulps = std::max(sum.ulps, distance(a[i], b[i]));
    sum.over += size > close.absolute + close.relative * std::fabs(b[i]) ? 1 : 0;
  }
}

// Has a block sum kept its bits, or is it zero because all its terms are?
bool sound(float sum, std::uint32_t any) { return any == 0 || (sum > least && sum < most); }

bool add_quickly(const float* a, const float* b, const Closeness& close, Difference& sum) {
  Block seen;
  add_block(a, b, close, seen);
  float squares = 0, energy = 0, largest = 0;
  std::uint32_t differ = 0, nonzero = 0, ulps = 0;
  std::int32_t over = 0;
  for (std::size_t l = 0; l < lanes; ++l) {
    squares += seen.squares[l];
    energy += seen.energy[l];
    largest = std::max(largest, seen.largest[l]);
    ulps = std::max(ulps, seen.ulps[l]);
    over -= seen.over[l];
    differ |= seen.differ[l];
    nonzero |= seen.nonzero[l];
  }
  if (!sound(squares, differ) || !sound(energy, nonzero)) return false;
  sum.squares += static_cast<double>(squares);
  sum.energy += static_cast<double>(energy);
  sum.largest = std::max(sum.largest, largest);
  sum.ulps = std::max(sum.ulps, ulps);
  sum.over += static_cast<std::size_t>(over);
  return true;
}

}  // namespace

double Difference::relative() const {
  if (non_finite > 0) return std::numeric_limits<double>::infinity();
  if (squares == 0) return 0;
  return energy > 0 ? std::sqrt(squares / energy) : std::numeric_limits<double>::infinity();
}

Difference difference(std::span<const float> a, std::span<const float> b, const Closeness& close) {
  Difference sum;
  add_difference(a, b, close, sum);
  return sum;
}

Difference difference(const Whole& a, const Whole& b) {
  static_assert(stretch % block == 0);  // else sums would depend on where a stretch ends
  Difference sum;
  Reading of_a(a), of_b(b);
  by_stretches(a.size(), [&](std::size_t first, std::size_t n) {
    add_difference({of_a(first, n), n}, {of_b(first, n), n}, {}, sum);
    return true;
  });
  return sum;
}

void add_difference(std::span<const float> a, std::span<const float> b, const Closeness& close,
                    Difference& sum) {
  std::size_t i = 0;
  for (; i + block <= a.size(); i += block) {
    const float *x = a.data() + i, *y = b.data() + i;
    if (!add_quickly(x, y, close, sum)) add_slowly(x, y, block, close, sum);
  }
  add_slowly(a.data() + i, b.data() + i, a.size() - i, close, sum);
}

}  // namespace plumb::trace
