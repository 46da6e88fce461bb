// probe/functions.hpp: how far a device's functions may be from the exact ones, in ulps of the
// result.
//
//   Asked for are all numbers of BF16 and of FP16, and FP32 numbers by chance: half of them of any
//   exponent, half between -16 and 16. Arguments and results are normal numbers of FP32. The exact
//   result is FP64's, from the C library: its error is below 2^-26 of an ulp here.
//
//   The fact is the largest error, rounded up to a quarter of an ulp; 0.5 if nothing is above half
//   an ulp (and 2^-26 of one). It is no proof for arguments that were not asked for: of n inputs by
//   chance none was beyond it, so that with 95 % less than 3 / n of all such inputs are.
//
// TESTED   tests/probe/functions_test.cpp
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "probe/findings.hpp"
#include "probe/sees.hpp"
#include "probe/subject.hpp"

namespace plumb::probe {

struct KnownFunction {
  const char* name;  // exp, log, erf, tanh, sqrt, divide
  const char* fact;  // exp_ulp ...
  bool two;          // arguments: x / y
  double (*exact)(double x, double y);
};
const std::vector<KnownFunction>& known_functions();
// Theirs, and those of the casts that are asked for (casts.hpp): what a subject may offer.
std::vector<std::string> names_of_functions();

// Arguments; `second` is empty where a function has one.
struct Arguments {
  std::vector<float> first, second;
};
Arguments arguments_of(const KnownFunction& function, std::size_t by_chance, unsigned seed);

struct FunctionErrors {
  std::size_t inputs = 0;
  double largest = 0;  // in ulps of the exact result; infinite where a result is no number
  float x = 0, y = 0;  // where
  // The number of the fact; nothing if it is above 1000.
  std::optional<double> claim() const;
  std::size_t beyond(double ulps) const;
  std::vector<float> ulps = {};  // of each input
};
FunctionErrors errors_of(const KnownFunction& function, const Arguments& arguments,
                         const std::vector<float>& results);

// Of each function that the subject has: a fact, or why there is none.
void find_functions(const Subject& subject, const CalibrateOptions& options, Findings& findings);

}  // namespace plumb::probe
