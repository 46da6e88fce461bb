// bounds/mma_step.hpp: the products of one step of a matrix unit, known exactly, and where their
// bits lie.
//
// TESTED   tests/kernels/mma_test.cpp
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>

#include "bounds/sees.hpp"
#include "number/mma.hpp"

namespace plumb::bounds {

constexpr int never = std::numeric_limits<int>::min() / 4;

// Exponents of a number's leading and last bit.
struct Reach {
  int top = never, last = never;
  bool subnormal = false;
};

inline Reach reach(double x, const Format& format) {
  if (x == 0 || !std::isfinite(x)) return {never, -never};
  const int top = std::max(std::ilogb(x), format.emin);
  int last = top - format.precision + 1;
  const double units = std::fabs(std::ldexp(x, -last));
  // Trailing zeros of the significand.
  for (double u = units; u == 2 * std::floor(u / 2); u /= 2) ++last;
  return {top, last, std::fabs(x) < format.smallest_normal()};
}

inline int exponent_of(double x) { return x > 0 ? std::ilogb(x) : never; }

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
