// trace/baselines.hpp: the rules that others use, for comparison. Each judges one tensor by itself.
//
// TESTED   tests/trace/check_test.cpp
#pragma once

#include <string>

#include "trace/pairs.hpp"
#include "trace/sees.hpp"
#include "trace/trace.hpp"

namespace plumb::trace {

struct Baseline {
  double ratio = 0;  // error / tolerance
  bool could_fail = true;
  std::string detail;
};

// `rule`: perturbation, depth-law, flat or assert-close. trace/check.hpp says where the constants
// come from.
Baseline baseline(const std::string& rule, const std::string& id, const Pair& seen, double margin,
                  const Manifest& manifest);

}  // namespace plumb::trace
