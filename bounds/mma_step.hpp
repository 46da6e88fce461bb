// bounds/mma_step.hpp: the products of one step of a matrix unit, known exactly, and where their
// bits lie.
//
// TESTED   tests/kernels/mma_test.cpp
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "bounds/proof/grid.hpp"
#include "bounds/sees.hpp"
#include "number/mma.hpp"

namespace plumb::bounds {

constexpr int never = std::numeric_limits<int>::min() / 4;

// Of a number above 0; else never.
inline int exponent_of(double x) {
  if (!(x > 0)) return never;
  const auto biased = static_cast<int>(std::bit_cast<std::uint64_t>(x) >> 52U);
  return biased > 0 && biased < 2047 ? biased - 1023 : std::ilogb(x);
}

inline double power_of_two(int exponent) {
  if (exponent < -1022 || exponent > 1023) return std::ldexp(1.0, exponent);
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52U);
}

// Exponents of a number's leading and last bit.
struct Reach {
  int top = never, last = never;
  bool subnormal = false;
};

inline Reach reach(double x, const Format& format) {
  if (x == 0 || !std::isfinite(x)) return {never, -never};
  const int top = exponent_of(std::fabs(x)), last = exponent_of(grid_of(x));
  return {std::max(top, format.emin), last, top < format.emin};
}

// sum += x; what FP64 drops is kept (TwoSum [Hig02 4.3]).
inline void add_to(double& sum, double x, double& lost) {
  const double s = sum + x, t = s - sum;
  lost += std::fabs((sum - (s - t)) + (x - t));
  sum = s;
}

class Step {
 public:
  void begin() {
    top = never;
    count_ = next_ = 0;
    sum = lost = 0;
  }
  // The next product.
  void add(double product, const Reach& a, const Reach& b) {
    const int slot = next_++;
    if (product == 0) return;
    top = std::max(top, a.top + b.top);
    addends_[count_++ % Mma::most_terms] = {a.last + b.last, a.top + b.top, slot,
                                            a.subnormal || b.subnormal, product};
    add_to(sum, product, lost);
  }
  struct Addend {
    int last;  // exponent of its last bit
    int top;   // its exponent
    int slot;  // its place in the step
    bool of_subnormal;
    double value;
  };
  std::span<const Addend> addends() const { return {addends_, count_}; }
  // Exponent of the power of two that all that remains of the addends on a grid is a multiple of.
  int last_on(int grid) const {
    int last = -never;
    for (const Addend& x : addends()) last = std::min(last, std::max(x.last, grid));
    return last;
  }

  // The sum of the products, each cut toward zero to a multiple of 2^grid. Exact.
  double cut_at(int grid) const {
    double units = 0;
    for (const Addend& x : addends()) units += std::trunc(std::ldexp(x.value, -grid));
    return std::ldexp(units, grid);
  }

  int top = never;           // largest exponent of a product
  double sum = 0, lost = 0;  // of the products; what FP64 drops of it

 private:
  std::size_t count_ = 0;
  int next_ = 0;
  Addend addends_[Mma::most_terms] = {};
};

}  // namespace plumb::bounds
