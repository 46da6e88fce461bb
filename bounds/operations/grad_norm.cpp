// grad_norm: g = sqrt(sum of all squares), of all main gradients
//
//   inputs       x_0, x_1, ...                     outputs   g (1, 1)
//   evaluate     squares and sums in FP64, so that their order is far below the one rounding to FP32
#include <cmath>
#include <type_traits>

#include "bounds/examples/maker.hpp"
#include "bounds/examples/random.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

template <class T>
std::vector<Matrix<T>> norm(const Call<T>& call) {
  using Wide = std::conditional_t<std::is_same_v<T, float>, double, T>;
  using std::sqrt;
  Wide squares = 0;
  for (const Matrix<T>* x : call.inputs) {
    Wide own = 0;
    for (const T& v : x->values) own += static_cast<Wide>(v) * static_cast<Wide>(v);
    squares += own;
  }
  Matrix<T> g(1, 1, static_cast<T>(sqrt(squares)));
  call.roundings.round(g, call.how.output);
  return as_outputs(std::move(g));
}

// The norm of n gradients' squares: each FP64 addition and square rounds by 2^-53, halved by the
// root; then one rounding to FP32. Far from a tie both casts agree, which is what `judge` sees.
Outcome<Tolerance> norm_tolerance(const ToleranceCall& call) {
  if (const auto refused = refusals_before(call); !refused.empty()) return refused.front();
  if (call.mode == Mode::moments) {
    Matrix<ErrorMoments> output(1, 1, ErrorMoments::unrounded(call.values[0].values[0]).rounded());
    MomentRoundings().round(output, call.how.output);
    return moments_of({output}, call);
  }
  double n = 4;
  for (const Matrix<double>* x : call.inputs) n += static_cast<double>(x->size());
  RunningError g = RunningError::of(call.values[0].values[0]);
  if (g.value > 0) {
    g.err(term<"grad_norm.sums">(n * 0x1p-53 * g.value), Share::sums);
    g.rounded(Share::steps);
  }
  Matrix<RunningError> output(1, 1, g);
  RunningErrorRoundings().round(output, call.how.output);
  return tolerance_of({output}, call, false);
}

}  // namespace

extern const Operation grad_norm{
    .id = "grad_norm",
    .evaluate = norm<float>,
    .value = norm<double>,
    .truth = norm<BigFloat>,
    .tolerance = norm_tolerance,
    .sums = SumOrder::none,
    .schema = {.inputs = {repeated({"x", "*", "*"})}, .outputs = {{"g", "1", "1"}}},
    .examples = {.random = two_tables, .shaped = one_table},
};

}  // namespace plumb::bounds
