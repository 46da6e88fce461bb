// bounds/proof/arithmetic.hpp: what a bound takes for granted of FP32 arithmetic, beyond rounding
// to nearest.
//
//   functions   exp, log, erf and tanh are off by at most so many ulp of the result, exp by so many
//               more for each unit of its argument (exp as a power of two, whose exponent is
//               rounded), erf besides by an absolute error (a polynomial of its own); quotients and
//               square roots by so many ulp (half an ulp: correctly rounded)
//   flushes     a subnormal operand or result may become zero, as FTZ and DAZ make it; of FP32 and
//               of formats with its exponents (BF16, TF32)
//   fuses       a multiply-add that an evaluation fuses is rounded once; else perhaps twice
//
// What a promise says is the default. Another one is in force while an ArithmeticScope of this
// thread lives: the lemmas of RunningError ask for it.
//
// TESTED   tests/bounds/proof/arithmetic_test.cpp, tests/bounds/machine_test.cpp
// SOURCES  theory.md C3
#pragma once

#include <string>

#include "bounds/sees.hpp"

namespace plumb::bounds {

struct Arithmetic {
  double exp_ulp = 1, exp_ulp_per_unit = 0, log_ulp = 1, erf_ulp = 1, tanh_ulp = 1;
  double erf_absolute = 0;
  double divide_ulp = 0.5, sqrt_ulp = 0.5;
  bool flushes = false;
  bool fuses = true;
  bool operator==(const Arithmetic&) const = default;
  // What functions and subnormals are where they are not as promised: "exp within 4 ulp ...".
  std::string words() const;
  // Relative errors of exp at arguments up to |x|, in units of 2^-24: an ulp is at most two.
  double exp_errors(double x) const { return 2 * (exp_ulp + exp_ulp_per_unit * x); }
};

// The smallest normal number of FP32: what a flush loses is less.
inline constexpr double smallest_normal_fp32 = 0x1p-126;

inline constinit thread_local Arithmetic arithmetic_in_force{};

class ArithmeticScope {
 public:
  explicit ArithmeticScope(const Arithmetic& now) : before_(arithmetic_in_force) {
    arithmetic_in_force = now;
  }
  ArithmeticScope(const ArithmeticScope&) = delete;
  ArithmeticScope& operator=(const ArithmeticScope&) = delete;
  ~ArithmeticScope() { arithmetic_in_force = before_; }

 private:
  Arithmetic before_;
};

}  // namespace plumb::bounds
