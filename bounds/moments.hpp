// bounds/moments.hpp: mean and deviation of an operation's errors, from its evaluation run over
// ErrorMoments numbers.
//
//   bias        mean error about the value as given: the evaluation's own bias, and
//               value mirrored here - value as given (two orders of the FP64 sums)
//   deviation   root of own^2 + the sum of the squares of the sensitivities   proof/error_moments.hpp
//
// TESTED   tests/bounds/operations/moments_test.cpp
#pragma once

#include <string_view>

#include "bounds/operation.hpp"
#include "bounds/proof/error_moments.hpp"
#include "bounds/sees.hpp"

namespace plumb::bounds {

// Roundings as promised: of parts, of running sums of parts and of the result.
class MomentRoundings final : public Roundings<ErrorMoments> {
 public:
  void round(Matrix<ErrorMoments>& x, const Format& to) override;
  void round_as(Matrix<ErrorMoments>& x, const Format& to, const TensorCast& cast) override;
  void before_parts(std::vector<Matrix<ErrorMoments>>&, const Format&) override {}
};

using MomentEvaluation = std::vector<Matrix<ErrorMoments>> (*)(const Call<ErrorMoments>&);

// Returns the moments of the outputs' errors.
// REFUSES  may_overflow  if an element or a step is likely to leave the range of its format, or
//                        divides by what may be zero.
Outcome<Tolerance> moments_of(const std::vector<Matrix<ErrorMoments>>& outputs,
                              const ToleranceCall& call);

// Runs `evaluate` on the call's inputs first.
Outcome<Tolerance> moments_by_evaluation(const ToleranceCall& call, MomentEvaluation evaluate);

Matrix<ErrorMoments> moments_of_input(const Matrix<double>& x);

}  // namespace plumb::bounds
