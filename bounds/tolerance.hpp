// bounds/tolerance.hpp: the tolerance of an operation, from its evaluation run over Near numbers.
//
//   deterministic      worst + stored + judge
//   probabilistic      min(worst, lambda (common + sqrt energy)) + stored + judge,
//                      lambda = sqrt(2 ln(2 k / delta)), k = 8 x all elements of all outputs: one
//                      for the element, the others for the shared numbers that led to it [HI23]
//   moments            deviation^2 = (energy + common^2 + stored^2) / 3: errors uniform within half
//                      a spacing; no bias, as round-to-nearest has none on unrepeated data
//
//   worst    all shares but `stored`                            see bounds/number/near.hpp
//   stored   half a spacing of the output format at |y| + worst
//   judge    |value as given - value as mirrored here|: two orders of the FP64 sums
//
// Data that repeat neighbours do not round independently: there the probabilistic bound falls back
// to the deterministic one and moments refuse (theory: constant data, P8).
// TESTED   tests/bounds/operations/*_test.cpp          SOURCES  bounds/SOURCES.md [HI23] [HM19]
#pragma once

#include <initializer_list>

#include "bounds/number/near.hpp"
#include "bounds/operation.hpp"

namespace plumb {

// Roundings as promised, each booked: those of parts as `wire`, the others as `stored`.
class NearRoundings final : public Roundings<Near> {
 public:
  void round(Matrix<Near>& x, const Format& to) override;
  void before_parts(std::vector<Matrix<Near>>& parts, const Format& wire) override;

 private:
  std::size_t wire_calls_ = 0;  // still to come from the combination that has begun
};

using NearEvaluation = std::vector<Matrix<Near>> (*)(const Call<Near>&);

// Returns the tolerance that the outputs' errors add up to.
// Refuses  may_overflow  if an element or a step may leave the range of its format;
//          conflict      moments, where `repeated`.
Outcome<Tolerance> tolerance_of(const std::vector<Matrix<Near>>& outputs, const ToleranceCall& call,
                                bool repeated);

// The same, running `evaluate` first. `summed` names the inputs whose elements a chain adds up.
// Refuses  not_finite    if an input holds an infinity or NaN.
Outcome<Tolerance> tolerance_by_evaluation(const ToleranceCall& call, NearEvaluation evaluate,
                                           std::initializer_list<std::size_t> summed);

// For tolerances with a proof of their own. Empty when all is well.
std::vector<Refusal> refusals_before(const ToleranceCall& call);
// Do more than an eighth of the non-zero elements equal the one before or above?
bool repeats(const Matrix<double>& x);

template <NearEvaluation Evaluate, std::size_t... Summed>
Outcome<Tolerance> tolerance_by(const ToleranceCall& call) {
  return tolerance_by_evaluation(call, Evaluate, {Summed...});
}

// Only the worst case is derived.
template <NearEvaluation Evaluate>
Outcome<Tolerance> worst_case_by(const ToleranceCall& call) {
  if (call.mode != Mode::deterministic) {
    return Refusal{Why::unsupported, "only the deterministic tolerance is derived here"};
  }
  return tolerance_by_evaluation(call, Evaluate, {});
}

}  // namespace plumb
