// trace/pairs.hpp: two runs, tensor by tensor, in one pass over both: what verdicts ask of them as
// numbers, and where the pieces of each do not fit together.
//
// COSTS    one read of both runs, and memory of a few stretches for each thread (trace/whole.hpp)
// TESTED   tests/trace/whole_test.cpp, tests/trace/check_test.cpp
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "trace/difference.hpp"
#include "trace/hands.hpp"
#include "trace/merge.hpp"
#include "trace/sees.hpp"

namespace plumb::trace {

struct Pair {
  bool both = false;           // in both runs, and of one shape
  bool equal = false;          // in every number, too
  Difference difference = {};  // candidate - reference
  double close = 0;            // error over the tolerance of assert_close, of the worst element
  struct Perturbed {
    bool equal;
    Difference difference;  // perturbed - reference
  };
  std::optional<Perturbed> perturbed = {};  // if it has that shape
};
using Pairs = std::map<std::string, Pair>;  // by id of either run

struct ToCompare {
  bool close = false;              // is Pair::close asked for?
  const Run* perturbed = nullptr;  // is there a perturbed reference?
  Hands hands = {};
};

// Tells both runs what is wrong with their own tensors (Run::tell).
Pairs compare(Run& reference, Run& candidate, const ToCompare& asked);

}  // namespace plumb::trace
