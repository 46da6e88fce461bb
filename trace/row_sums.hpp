// trace/row_sums.hpp: the sums over a difference e of two runs, row by row, that all statistics of it
// are made of (trace/statistics.hpp).
//
// CLAIM    Each sum of squares is off by at most 2^-19 of itself: e and its square are rounded in FP32
//          once, sums of at most 256 terms by 16 lanes pass 19 additions, and FP64 adds these up. Over
//          the rows of a stretch (trace/whole.hpp) FP32 adds the squares of a column, too: off by at
//          most 2^-24 times the rows, and by 2^-149 for each. A stretch with a sum outside of [2^-116,
//          2^100], where FP32 may have lost more to numbers too small or too large for it, is summed
//          again in FP64, in which rows of less than 16 are summed at once. How many differ, and which
//          of |e| and u is larger, is exact.
// COSTS    one pass over both, some twenty instructions for sixteen elements
// TESTED   tests/trace/statistics_test.cpp
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <type_traits>
#include <vector>

#include "number/format.hpp"
#include "number/lanes.hpp"
#include "trace/sees.hpp"

namespace plumb::trace {

// Calls f(reference, other, how many, index of the first) for so many elements of a row at a time;
// how many is a constant but for the last. Those beyond the end can be read, and are 0.
template <std::size_t width, class F>
void by_groups(const float* reference, const float* other, std::size_t n, const F& f) {
  std::size_t j = 0;
  for (; j + width <= n; j += width) {
    f(reference + j, other + j, std::integral_constant<std::size_t, width>(), j);
  }
  if (j == n) return;
  std::array<float, width> r{}, x{};
  std::copy(reference + j, reference + n, r.begin());
  std::copy(other + j, other + n, x.begin());
  f(r.data(), x.data(), n - j, j);
}

// The ulp of numbers of a format: a power of two, which FP32 holds.
struct Ulps {
  float relative;
  Floats at_zero;
  explicit Ulps(const Format& format)
      : relative(std::ldexp(2.0F, -format.precision)),
        at_zero(Floats{} + static_cast<float>(format.spacing_at_zero())) {}
  Floats operator()(const Floats& x) const {
    const Floats u = (Floats)((Ints)x & 0x7f800000) * relative;
    return u > at_zero ? u : at_zero;
  }
  float operator()(float x) const { return (*this)(Floats{} + x)[0]; }
};

// What a difference shows without a field.
struct OfRows {
  struct Row {
    double energy = 0;  // sum of e^2
    double free = 0;    // the square of the largest min(|e|, u), rounded as it is in the energy
    float excess = 0;   // largest |e| - u, in FP32
  };
  std::vector<Row> rows;
  double along = 0;      // <e, r>
  double different = 0;  // how many e != 0
};

// Of a row of the reference: the sum of its squares, and that of u^2 / 12.
struct OfReference {
  double energy = 0, floor = 0;
};
OfReference of_reference(const float* reference, std::size_t n, const Ulps& ulps);
// Adds the ulps of a row of the reference to those of its columns, of which there are so many that whole
// vectors can be added.
void add_ulps(const float* reference, std::size_t n, const Ulps& ulps, std::vector<float>& columns);

// The sums over one difference, some rows at a time.
class RowSums {
 public:
  RowSums(const Format& format, std::size_t cols)
      : ulps_(format), cols_(cols), squares_((cols + lanes - 1) / lanes * lanes) {}

  // Of n rows, which fill no more than a stretch unless there is only one. Adds e^2 to the energies of
  // the columns, unless these are null.
  void see(const float* reference, const float* other, std::size_t n, OfRows::Row* rows,
           double* columns);
  // Tells the sums over all rows that were seen.
  void tell(OfRows& seen) const {
    seen.along = along_;
    seen.different = different_;
  }

 private:
  template <bool with_columns>
  bool in_fp32(const float* reference, const float* other, std::size_t n, OfRows::Row* rows,
               double* columns);
  OfRows::Row in_fp64(const float* reference, const float* other, double* columns);

  Ulps ulps_;
  std::size_t cols_;
  std::vector<float> squares_;  // of the columns, over some rows
  double along_ = 0, different_ = 0;
};

}  // namespace plumb::trace
