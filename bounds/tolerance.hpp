// bounds/tolerance.hpp: the tolerance of an operation, from its evaluation run over RunningError
// numbers.
//
//   deterministic   worst + stored + judge
//   probabilistic   min(worst, lambda (common + sqrt energy) + drift) + stored + judge,
//                   lambda = sqrt(2 ln(2 k / delta)), k = 8 x all elements of all outputs: one
//                   for the element, the others for the shared numbers that led to it [HI23]
//   moments         of the same evaluation over ErrorMoments numbers: bounds/moments.hpp
//
//   worst    all shares but `stored`                            see bounds/proof/running_error.hpp
//   stored   half a spacing of the output format at |y| + worst; of a stochastic cast a whole one
//   judge    |value as given - value as mirrored here|: two orders of the FP64 sums
//
// Data that repeat neighbours do not round independently, nor do sums of squares of short numbers:
// there the probabilistic bound falls back to the deterministic one (theory.md P8: constant data).
// Moments refuse the first and foretell the second.
//
// TESTED   tests/bounds/operations/*_test.cpp
// SOURCES  theory.md P1, P4, P8; bounds/SOURCES.md [HI23] [HM19]
#pragma once

#include <initializer_list>

#include <string_view>

#include "bounds/moments.hpp"
#include "bounds/operation.hpp"
#include "bounds/proof/running_error.hpp"
#include "bounds/sees.hpp"

namespace plumb::bounds {

// Roundings as promised, each booked: those of parts under `wire`, the others under `stored`.
template <class Number>
class ErrorRoundings final : public Roundings<Number> {
 public:
  void round(Matrix<Number>& x, const Format& to) override;
  void round_as(Matrix<Number>& x, const Format& to, const TensorCast& cast) override;
  void before_parts(std::vector<Matrix<Number>>& parts, const Format& wire) override;

 private:
  std::size_t wire_calls_ = 0;  // still to come from the combination that has begun
};
using RunningErrorRoundings = ErrorRoundings<RunningError>;

using NearEvaluation = std::vector<Matrix<RunningError>> (*)(const Call<RunningError>&);
using WorstEvaluation = std::vector<Matrix<WorstError>> (*)(const Call<WorstError>&);

// An operation's evaluation over RunningError and over ErrorMoments. Without moments only the worst
// case is derived.
struct Proofs {
  NearEvaluation bound;
  MomentEvaluation moments;
};

// What a proof of its own says of a share, with its numbers.
struct Formula {
  Share share;
  std::string text;
};

// Returns the tolerance that the outputs' errors add up to; where roundings depend on each other,
// the worst case. Its terms are those of the element with the largest bound.
// REFUSES  may_overflow  if an element or a step may leave the range of its format.
Outcome<Tolerance> tolerance_of(const std::vector<Matrix<RunningError>>& outputs,
                                const ToleranceCall& call, bool dependent,
                                const std::vector<Formula>& own = {});

// The sentence that refuses moments of data that repeat.
inline constexpr std::string_view data_repeat =
    "the data repeat: their roundings are not independent";

// The sentence that refuses moments where nobody knows the order of a sum.
inline constexpr std::string_view no_order =
    "moments of a sum need its order; take a machine that says one, as ieee-sequential does";

// Runs the evaluation on the call's inputs, and returns its tolerance or moments. `summed` names
// the inputs whose elements a chain adds up, `squared` those whose squares it adds up.
// REFUSES  not_finite    if an input holds an infinity or NaN
//          conflict      moments, where data repeat
//          unsupported   moments of sums in any order
Outcome<Tolerance> tolerance_by_evaluation(const ToleranceCall& call, const Proofs& proofs,
                                           std::initializer_list<std::size_t> summed,
                                           std::initializer_list<std::size_t> squared = {});

// The deterministic bounds of tolerance_by_evaluation, without terms, of an operation that makes each
// element from those in its place alone: a slice after the other, in a fraction of the time.
// REFUSES  not_finite, may_overflow  as above
Outcome<Tolerance> bounds_by_place(const ToleranceCall& call, WorstEvaluation evaluate);

// The sum of an element over the parts, in an order that nobody knows.
//   CLAIM   With n parts that are not zero and M_0 = sum of |x_p| + their errors, any tree of n - 1
//           additions is off by the parts' errors and E = sum of h(M_{k-1}), k = 1 .. n - 1, where
//           h is half an FP32 spacing and half one of the wire, and M_k = M_{k-1} + h(M_{k-1}).
//   PROOF   Let E_j be the first j terms of E. A sum made by j additions is off by E_j at most: its
//           operands were made by a and b of them, a + b + 1 = j; they are off by E_a + E_b, and
//           E_a + E_b <= E_(a+b), as h grows. So what the last addition rounds is at most
//           M_0 + E_(j-1) = M_(j-1). An addition of zero rounds nothing.
//   SOURCES theory.md D4
RunningError added_in_any_order(const std::vector<Matrix<RunningError>>& parts, std::size_t element,
                                const Format& wire);
// The same of parts that travel: each is rounded to the wire first. Two numbers have one order: they
// are added as promised.
Matrix<RunningError> sum_in_any_rank_order(std::vector<Matrix<RunningError>>&& parts,
                                           const Format& wire, Roundings<RunningError>& roundings);

// The refusals of a tolerance with a proof of its own. Empty when all is well.
std::vector<Refusal> refusals_before(const ToleranceCall& call);
// Do more than an eighth of the non-zero elements equal the one before or above?
bool repeats(const Matrix<double>& x);
// Have more than seven eighths of the non-zero elements at most 12 significant bits? Then squares
// are exact in FP32, and those of odd significands end in 001: most of the sums' roundings at one
// exponent go the same way.
bool short_numbers(const Matrix<double>& x);

// tolerance_by<evaluate<RunningError>, evaluate<ErrorMoments>, inputs that are summed>.
template <NearEvaluation Bound, MomentEvaluation Moments, std::size_t... Summed>
Outcome<Tolerance> tolerance_by(const ToleranceCall& call) {
  return tolerance_by_evaluation(call, {Bound, Moments}, {Summed...});
}

// For operations that begin with the sum of the squares of input 0.
template <NearEvaluation Bound, MomentEvaluation Moments, std::size_t... Summed>
Outcome<Tolerance> tolerance_of_squares_by(const ToleranceCall& call) {
  return tolerance_by_evaluation(call, {Bound, Moments}, {Summed...}, {0});
}

}  // namespace plumb::bounds
