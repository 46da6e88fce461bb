// grad_norm, clip and scale: clipping by the global norm
//
//   grad_norm   g = sqrt(sum of all squares)      inputs: all main gradients       g (1, 1)
//               squares and sums in FP64, so that their order is far below the one rounding to FP32
//   clip        c = min(1, max_norm / (g + 1e-6))   inputs g      attribute max_norm     c (1, 1)
//   scale       y = x c                            inputs x, c (1, 1)
#include <cmath>

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
  return {std::move(g)};
}

// The norm of n gradients' squares: each FP64 addition and square rounds by 2^-53, halved by the
// root; then one rounding to FP32. Far from a tie both casts agree, which is what `judge` sees.
Outcome<Tolerance> norm_tolerance(const ToleranceCall& call) {
  if (const auto refused = refusals_before(call); !refused.empty()) return refused.front();
  if (call.mode == Mode::moments) {
    Matrix<Moment> output(1, 1, Moment::unrounded(call.values[0].values[0]).rounded());
    MomentRoundings().round(output, call.how.output);
    return moments_of({output}, call);
  }
  double n = 4;
  for (const Matrix<double>* x : call.inputs) n += static_cast<double>(x->size());
  Near g = Near::of(call.values[0].values[0]);
  if (g.value > 0) {
    g.err(term<"grad_norm.sums">(n * 0x1p-53 * g.value), Share::sums);
    g.rounded(Share::steps);
  }
  Matrix<Near> output(1, 1, g);
  NearRoundings().round(output, call.how.output);
  return tolerance_of({output}, call, false);
}

template <class T>
std::vector<Matrix<T>> coefficient(const Call<T>& call) {
  using std::min;
  const T limit = static_cast<T>(call.attribute("max_norm"));
  Matrix<T> c(1, 1, min(T(1), limit / (call[0].values[0] + static_cast<T>(1e-6))));
  call.roundings.round(c, call.how.output);
  return {std::move(c)};
}

template <class T>
std::vector<Matrix<T>> scaled(const Call<T>& call) {
  Matrix<T> y = call[0];
  for (T& x : y.values) x *= call[1].values[0];
  call.roundings.round(y, call.how.output);
  return {std::move(y)};
}

void random_clip(RandomCall& c) {
  const double norm = std::fabs(c.draw.normal()) * 2 + 1e-3;
  c.e.attributes = {{"max_norm", 1}};
  c.add(Matrix<double>(1, 1, static_cast<double>(static_cast<float>(norm))));
}
// A norm above max_norm.
void shaped_clip(Maker& m) {
  m.drawn(1, 1);
  double& norm = m.e.inputs.back().values[0];
  norm = round_to(1 + std::fabs(norm), fp32);
  m.e.attributes = {{"max_norm", 1}};
}

void random_scale(RandomCall& c) {
  c.table();
  c.moderate(1, 1, 1);
}
void shaped_scale(Maker& m) {
  m.table();
  m.filled(1, 1, 0.75);
}

}  // namespace

extern const Operation grad_norm{
    .id = "grad_norm",
    .evaluate = norm<float>,
    .value = norm<double>,
    .truth = norm<Truth>,
    .tolerance = norm_tolerance,
    .sums = SumOrder::none,
    .schema = {.inputs = {repeated({"x", "*", "*"})}, .outputs = {{"g", "1", "1"}}},
    .examples = {.random = two_tables, .shaped = one_table},
};
extern const Operation clip{
    .id = "clip",
    .evaluate = coefficient<float>,
    .value = coefficient<double>,
    .truth = coefficient<Truth>,
    .tolerance = tolerance_by<coefficient<Near>, coefficient<Moment>>,
    .sums = SumOrder::none,
    .schema = {.inputs = {{"g", "1", "1"}},
               .outputs = {{"c", "1", "1"}},
               .attributes = {real("max_norm")}},
    .examples = {.random = random_clip, .shaped = shaped_clip, .usual = "1x1"},
};
extern const Operation scale{
    .id = "scale",
    .evaluate = scaled<float>,
    .value = scaled<double>,
    .truth = scaled<Truth>,
    .tolerance = tolerance_by<scaled<Near>, scaled<Moment>>,
    .sums = SumOrder::none,
    .schema = {.inputs = {{"x", "N", "M"}, {"c", "1", "1"}}, .outputs = {{"y", "N", "M"}}},
    .examples = {.random = random_scale, .shaped = shaped_scale},
};

}  // namespace plumb::bounds
