// bounds/on_machine.hpp: the tolerance of an operation on a machine, from what its card knows.
//
//   order "any", nearest          for any order (bounds/sum.hpp), where the operation takes its
//                                 sums as asked; in moments, and of the others, its own order is
//                                 assumed (assumptions())
//   a known order, nearest        gemm: bounds/ordered.hpp, which knows other roundings, too; those
//                                 that take their sums as asked; others where that order is theirs
//   a collective                  all_reduce: its algorithm, wire and rotation, not the call's
//   a matrix unit                 gemm: bounds/mma.hpp; others are refused by name
//
// Where a sum's errors are a SumErrors, the modes are
//   deterministic   worst + half a spacing of the output at |value| + worst
//   probabilistic   min(worst, |bias| + drift + lambda sqrt(energy)), and the same cast;
//                   lambda = sqrt(2 ln(2 elements / delta)); worst alone for data that repeat
//   moments         bias, sqrt(variance + spacing^2 / 12); refused for data that repeat
// Both bounds add |value as given - the sum from which errors are counted|.
//
// TESTED   tests/bounds/machine_test.cpp, tests/kernels/ordered_test.cpp,
//          tests/kernels/mma_test.cpp
#pragma once

#include "bounds/machine.hpp"
#include "bounds/operation.hpp"
#include "bounds/sees.hpp"

namespace plumb::bounds {

// Returns the tolerance; inputs are numbers of `input`, which chooses the matrix unit.
// REFUSES  unsupported   by name what the card does not describe
//          conflict      moments of data that repeat
//          and whatever the operation itself refuses
Outcome<Tolerance> tolerance_on(const Machine& machine, const Operation& operation,
                                const ToleranceCall& call, const Format& input);

// What that tolerance assumes, in words: the order of sums, "sums in any order" and the like; where an
// operation has several formulas, which; functions and subnormals, where they are not as promised.
std::string assumptions(const Machine& machine, const Operation& operation, Mode mode);

}  // namespace plumb::bounds
