// grad_norm: g = sqrt(sum of all squares), of all main gradients
//
//   inputs       x_0, x_1, ...                     outputs   g (1, 1)
//   evaluate     squares and sums in FP64, so that their order is far below the one rounding to FP32
//   forms        fp64, as above; fp32: in FP32, of each tensor first, whose norms are kept in the
//                output's format; perhaps of each rank next; in any order: theory.md D8
// SOURCES  theory.md D8
#include <cmath>
#include <limits>
#include <type_traits>

#include "bounds/examples/maker.hpp"
#include "bounds/examples/random.hpp"
#include "bounds/tolerance.hpp"
#include "number/rounding.hpp"

namespace plumb::bounds {
namespace {

constexpr List<Form> forms{{"fp64", true}, {"fp32", false, true}};

// As kernels take it: a chain for each tensor, then one over their norms.
float in_fp32(const Call<float>& call) {
  float squares = 0;
  for (const Matrix<float>* x : call.inputs) {
    float own = 0;
    for (const float v : x->values) own = std::fma(v, v, own);
    const float norm = round_to(std::sqrt(own), call.how.output);
    squares = std::fma(norm, norm, squares);
  }
  return std::sqrt(squares);
}

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
  if constexpr (std::is_same_v<T, float>) {
    if (call.form == 1) g.values[0] = in_fp32(call);
  }
  call.roundings.round(g, call.how.output);
  return as_outputs(std::move(g));
}

// The error of FP32 sums of n squares, in any order, of tensors, ranks and all.
RunningError norm_in_fp32(double norm, double n, double tensors, const Format& output) {
  const double roots = 4 * arithmetic_in_force.sqrt_ulp;  // twice as much of a square
  const double passes = n + 3 + 3 * roots;
  const double f = std::expm1(passes * std::log1p(0x1p-24) +
                              4 * std::log1p(output == fp32 ? 0 : output.unit_roundoff()));
  const double least = arithmetic_in_force.flushes ? 2 * smallest_normal_fp32 : 0x1p-149;
  const double square = norm * norm;
  RunningError g = RunningError::of(norm);
  const double most = square * (1 + f) + term<"grad_norm.small">(3 * n * least * (1 + f));
  const double off = most - square;
  // sqrt(S + d) - sqrt S is less than what is lost below: sqrt S - sqrt(S - d).
  const double below = off < square ? off / (norm + std::sqrt(square - off)) : norm;
  const double above = std::sqrt(most) - norm;
  g.err_surely(term<"grad_norm.fp32">(std::max(above, below) * (1 + 0x1p-30)), Share::sums);
  // Of norms that are subnormal in the output's format.
  if (!(output == fp32)) {
    g.err_surely(std::sqrt(tensors) * output.spacing_at_zero() * (1 + f), Share::sums);
  }
  if (!(most <= 0x1.fffffep127)) g.err_surely(std::numeric_limits<double>::infinity(), Share::sums);
  return g;
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
  if (call.form == 1) {
    g = norm_in_fp32(g.value, n, static_cast<double>(call.inputs.size()), call.how.output);
  } else if (g.value > 0) {
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
    .forms = forms,
};

}  // namespace plumb::bounds
