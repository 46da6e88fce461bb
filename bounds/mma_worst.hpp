// bounds/mma_worst.hpp: the exact sum of a matrix unit's steps so far, and how far the unit's may be
// from it: the running bounds of theory.md T3 and T6.
//
// TESTED   tests/kernels/mma_test.cpp
// SOURCES  theory.md T3, T6
#pragma once

#include "bounds/mma_step.hpp"
#include "bounds/sees.hpp"

namespace plumb::bounds {

class Worst {
 public:
  explicit Worst(const Mma& unit) : unit_(unit) {}

  void take(const Step& step);

  double exact = 0, error = 0, energy = 0;
  double drift = 0;  // roundings that may all point one way, as what is added is small (P8)

 private:
  void take_at_once(const Step& step);  // aligned and exact units
  void take_in_pairs(const Step& step);
  void take_floored(const Step& step);

  bool empty() const { return exact == 0 && error == 0; }
  // Exponent of the unit's sum, at most; a number below the normal ones has the exponent of those.
  int of_sum() const { return std::max(exponent_of(std::fabs(exact) + error), unit_.sum.emin); }
  // Adds a step's exact products.
  void add(const Step& step) {
    double lost = step.lost;
    add_to(exact, step.sum, lost);
    error += lost;
  }
  // A sum may leave its format's range: then nothing is known.
  void overflow() { error = std::numeric_limits<double>::infinity(); }
  void cut(double times, int exponent);
  // To nearest, multiples of 2^exponent, after something was added.
  void round(int exponent, double added);
  // Notes that the unit's sum has `bits` below its leading bit, which is at least that of |S| - d.
  void has_bits(int bits);

  Mma unit_;
  int last_ = -never;  // the unit's sum is a multiple of 2 to this
};

}  // namespace plumb::bounds
