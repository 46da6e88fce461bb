#include "kernels/mma/amd.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <stdexcept>

#include "kernels/mma/split.hpp"

namespace plumb::kernels {
namespace {

// A sum of multiples of 2^-320 below 2^288, exactly: digits of 32 bits, each with its sign until
// value() carries.
class Exact {
 public:
  void add(std::int64_t significand, int exponent) {
    const auto at = static_cast<std::size_t>(exponent - lowest);
    const bool negative = significand < 0;
    const std::uint64_t x = static_cast<std::uint64_t>(negative ? -significand : significand)
                            << at % 32;
    const auto low = static_cast<std::int64_t>(x & 0xffffffff);
    const auto high = static_cast<std::int64_t>(x >> 32);
    digits_[at / 32] += negative ? -low : low;
    digits_[at / 32 + 1] += negative ? -high : high;
  }

  // To FP32, nearest even.
  float value() {
    carry();
    const bool negative = digits_.back() < 0;
    if (negative) {
      for (std::int64_t& d : digits_) d = -d;
      carry();
    }
    std::size_t top = digits_.size();
    while (top > 0 && digits_[top - 1] == 0) --top;
    if (top == 0) return 0;
    // Two digits hold at least 33 bits; what lies below them is one more bit.
    std::uint64_t leading = static_cast<std::uint64_t>(digits_[top - 1]) << 32;
    if (top > 1) leading |= static_cast<std::uint64_t>(digits_[top - 2]);
    const int drop = std::max(0, 24 - std::countl_zero(leading));  // 40 bits stay
    bool rest = (leading & ((std::uint64_t{1} << drop) - 1)) != 0;
    for (std::size_t i = 0; i + 2 < top; ++i) rest = rest || digits_[i] != 0;
    const std::uint64_t odd = (leading >> drop << 1) | (rest ? 1U : 0U);
    const int exponent = lowest + 32 * (static_cast<int>(top) - 2) + drop - 1;
    const double x = std::ldexp(static_cast<double>(odd), exponent);
    return static_cast<float>(negative ? -x : x);
  }

 private:
  static constexpr int lowest = -320;

  void carry() {
    for (std::size_t i = 0; i + 1 < digits_.size(); ++i) {
      const std::int64_t up = digits_[i] >> 32;
      digits_[i] -= up << 32;
      digits_[i + 1] += up;
    }
  }

  std::array<std::int64_t, 20> digits_{};
};

float exact_step(float c, std::span<const Product> products, int bits) {
  Exact sum;
  for (const Product& p : products) {
    if (p.significand != 0) sum.add(p.significand, p.exponent - bits);
  }
  const Split of_c = split(c, 23, -126);
  if (c != 0) sum.add(of_c.significand, of_c.exponent - 23);
  return sum.value();
}

float flushed(float x) { return std::fabs(x) < 0x1p-126F ? 0 : x; }

float paired_step(float c, std::span<const Product> products, int bits) {
  std::array<float, 4> p{};
  for (std::size_t k = 0; k < products.size(); ++k) {
    if (products[k].of_subnormal || products[k].significand == 0) continue;
    const auto significand = static_cast<float>(products[k].significand);
    p[k] = flushed(std::ldexp(significand, products[k].exponent - bits));
  }
  const float first = flushed(p[0] + p[1]), second = flushed(p[2] + p[3]);
  return flushed(c + flushed(first + second));
}

// An integer in units of 2^unit.
struct OnGrid {
  std::int64_t units;
  int unit;
};

// Cut toward minus infinity.
OnGrid floored_at(OnGrid x, int unit) {
  const int down = unit - x.unit;
  if (down <= 0) return {x.units << std::min(-down, 40), unit};
  return {x.units >> std::min(down, 62), unit};
}

// The sum of every groups-th product from `first` on, each cut toward zero at 2^(E - grid).
OnGrid cut_sum(const Mma& unit, std::span<const Product> products, int bits, std::size_t first) {
  const auto step = static_cast<std::size_t>(unit.groups);
  int largest = far_below;
  for (std::size_t k = first; k < products.size(); k += step) {
    if (products[k].significand != 0) largest = std::max(largest, products[k].exponent);
  }
  OnGrid sum{0, largest - unit.grid};
  for (std::size_t k = first; k < products.size(); k += step) {
    const Product& p = products[k];
    if (p.significand == 0) continue;
    const OnGrid size{p.significand < 0 ? -p.significand : p.significand, p.exponent - bits};
    const std::int64_t cut = floored_at(size, sum.unit).units;
    sum.units += p.significand < 0 ? -cut : cut;
  }
  return sum;
}

float floored_step(const Mma& unit, float c, std::span<const Product> products, int bits) {
  OnGrid dot = cut_sum(unit, products, bits, 0);
  if (unit.groups == 2) {
    const OnGrid odd = cut_sum(unit, products, bits, 1);
    const int common = std::max(dot.unit, odd.unit);
    dot = {floored_at(dot, common).units + floored_at(odd, common).units, common};
  }
  const Split of_c = split(c, 23, -126);
  const int of_sum = std::max(of_c.exponent, -126);
  const int largest = std::max(dot.unit + unit.grid, of_sum);
  const int fine = largest - unit.kept - 1;
  OnGrid sum = floored_at(dot, fine);
  // In groups, a C that lies wholly below the grid is left out instead of cut down.
  if (unit.groups == 1 || of_sum >= largest - unit.grid - 1) {
    const OnGrid cut = floored_at({of_c.significand, of_sum - 23}, largest - unit.grid);
    sum.units += floored_at(cut, fine).units;
  }
  if (sum.units == 0) return 0;
  const auto size = static_cast<std::uint64_t>(sum.units < 0 ? -sum.units : sum.units);
  const int top = std::max(63 - std::countl_zero(size) + fine, -126);
  sum = floored_at(sum, std::max(top - unit.kept, fine));
  return static_cast<float>(std::ldexp(static_cast<double>(sum.units), sum.unit));
}

}  // namespace

float amd_step(const Mma& unit, float c, std::span<const Product> products, int bits) {
  switch (unit.kind) {
    case Mma::Kind::exact:
      return exact_step(c, products, bits);
    case Mma::Kind::paired:
      return paired_step(c, products, bits);
    case Mma::Kind::floored:
      return floored_step(unit, c, products, bits);
    default:
      throw std::logic_error("aligned units step in product.cpp");
  }
}

}  // namespace plumb::kernels
