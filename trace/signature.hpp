// trace/signature.hpp: what a wrong tensor looks like: the usual mistakes of parallel programs by
// what they leave in numbers.
//
// A mistake is a hypothesis: it says what each element should be instead, and it is named only if
// every element is there, within the tolerance of the operation that made the tensor (a sum of two
// such values: within both). So no name is a guess from a correlation, and a tensor inside its
// tolerance has none. Looked for, in this order:
//   zeros       0 wherever it is wrong
//   format      a wider format was promised, and all numbers are of a shorter one
//   times k     k times what it should be, k or 1 / k a whole number up to 64, or -1, in all of the
//               tensor or in the block that is wrong
//   lost        a part of its sum is missing, counts twice, or is all there is; a bias counts once
//               for each part
//   stale       the same bits as this tensor of another micro-batch
//   blocks      blocks of rows or columns stand in each other's place
//   transposed  rows are columns
//   off by ln n a constant too much or too little: a normaliser over n ranks
// Where fewer than four elements say anything only zeros, format and stale are named.
//
// COSTS    some evaluations of one operation in FP64, two for each part of its sum
// TESTED   tests/trace/signature_test.cpp, tests/experiments/signatures_test.cpp
#pragma once

#include <string>
#include <vector>

#include "bounds/operation.hpp"
#include "trace/graph.hpp"
#include "trace/sees.hpp"
#include "trace/trace.hpp"

namespace plumb::trace {

// One output of a node that is outside of its tolerance.
struct Suspect {
  const Node& node;
  const std::string& id;                      // of that output
  std::size_t output;                         // its number
  std::vector<const Matrix<double>*> inputs;  // the run's own
  const Values& run;
  const Tensor& got;
  const Matrix<double>&truth, &bound;
};

// "twice what it should be", "lacks part 2 of 4 of its sum" ...; empty where no name fits.
std::string looks_like(const Suspect& suspect);

}  // namespace plumb::trace
