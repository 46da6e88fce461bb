// bounds/judgement.hpp: the elements of an output, held against value and bound one by one.
//
//   ratio     |found - value - bias| / limit; 0 of equal numbers, infinite of a NaN, or of any
//             difference where the limit is 0
//   limit     the bound; under moments lambda times the deviation, lambda = sqrt(2 ln(2 n / delta)):
//             beyond it lies one of n errors with probability delta, if their tails are no wider than
//             the normal distribution's
//   fit       allclose(found, value) asks for |found - value| <= atol + rtol |value|. Of each rtol
//             the smallest atol that accepts all that is within the bound, and how many times the
//             bound it then accepts: at the median of the elements and at 99 % of them
//
// COSTS     numbers of a fixed size: quantiles come from a histogram with 32 bins an octave (3 %),
//           a fit's from 65536 elements that are evenly spaced
// TESTED    tests/bounds/judgement_test.cpp
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "bounds/sees.hpp"
#include "number/format.hpp"

namespace plumb::bounds {

struct Compared {
  std::size_t element = 0;
  double found = 0, value = 0, bound = 0, bias = 0;
  double ratio = 0;
};

struct Fit {
  double rtol, atol;
  double at_median, at_most;  // (atol + rtol |value|) / bound; infinite where the bound is 0
};

class Judgement {
 public:
  // Of `elements` elements of an output of a format. `lambda`: 1 where bounds are bounds.
  Judgement(std::size_t elements, const Format& output, double lambda = 1);

  // `element`: its place in the output. Call in the order of elements.
  void add(std::size_t element, double found, double value, double bound, double bias = 0);

  double lambda() const { return lambda_; }
  std::size_t elements() const { return elements_; }
  std::size_t equal() const { return bins_[0]; }
  std::size_t outside() const { return outside_; }
  std::size_t not_finite() const { return not_finite_; }
  // The one with the largest ratio; a NaN before all others. Nothing was added: all zero.
  const Compared& worst() const { return worst_; }
  // The ratio that this share of elements does not exceed, at most 3 % too large.
  double quantile(double share) const;
  // How many elements have a ratio in (from, to].
  std::size_t between(double from, double to) const;
  std::vector<Fit> fits() const;

 private:
  static constexpr int octaves = 64;  // of ratios from 2^-32 to 2^32
  static constexpr std::size_t bins = octaves * 32 + 2;
  static std::size_t bin_of(double ratio);
  static double upper_edge(std::size_t bin);
  void count_for_fits(double value, double limit);

  double lambda_;
  std::size_t elements_ = 0, outside_ = 0, not_finite_ = 0, stride_, since_ = 0;
  std::array<std::uint64_t, bins> bins_{};
  Compared worst_;
  std::vector<double> rtol_, atol_;
  struct Sample {
    double value, limit;
  };
  std::vector<Sample> samples_;
};

// lambda of the limit under moments.
double lambda_of(std::size_t elements, double delta);

}  // namespace plumb::bounds
