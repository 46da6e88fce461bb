// bounds/proof/term.hpp: the terms of the bounds by name, so that each can be lost on purpose.
//
// term<"running_error.rounding">(x) is x. In the program that `./run mutants` builds
// (PLUMB_MUTANTS) it is x times the factor of the environment's PLUMB_MUTANT, e.g.
// "running_error.rounding:0", if that names it: a test has to notice.
// COSTS    nothing outside that program.
// TESTED   by ./run mutants
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "bounds/sees.hpp"

namespace plumb::bounds {

template <std::size_t n>
struct TermName {
  char text[n];
  constexpr TermName(const char (&name)[n]) { std::copy(name, name + n, text); }
};

#ifdef PLUMB_MUTANTS
double mutant_factor(std::string_view name);

template <TermName name>
double term(double x) {
  static const double factor = mutant_factor(name.text);
  return factor == 1 ? x : factor * x;
}
#else
template <TermName>
constexpr double term(double x) {
  return x;
}
inline double mutant_factor(std::string_view) { return 1; }
#endif

}  // namespace plumb::bounds
