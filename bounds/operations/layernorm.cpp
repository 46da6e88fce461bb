// layernorm: y = (x - mu) r w + b,  mu = sum x / D,  r = 1 / sqrt(sum (x - mu)^2 / D + eps)
//
//   inputs       x (T, D), w (D, 1), b (D, 1)        y (T, D)
//   attributes   eps; one_pass (default 0): the variance as mean of squares less square of mean, as
//                some kernels take it; its bound grows with (mu / sigma)^2, and so do its errors;
//                welford (default 0): mean and sum of squares brought up to date element by
//                element, m_k = m_{k-1} + (x_k - m_{k-1}) / k, s_k = s_{k-1} + (x_k - m_{k-1})
//                (x_k - m_k); its bound grows with mu / sigma (theory.md N3)
//   forms        the three above, which a call without these attributes may be asked for, each plain
//                or folded: y = x a + c, a = r w, c = b - mu a, or y = (x r - mu r) w + b; what is
//                folded loses in proportion to |mu| / sigma, too
//   evaluate     two passes: a chain of additions for mu, a chain of fused multiply-adds for the
//                squares; then each step rounded to FP32; one rounding to the output format
// Its gradients: layernorm_grad.cpp, layernorm_wgrad.cpp.
//
// SOURCES  theory.md N3; bounds/SOURCES.md [CGL83]
#include "bounds/examples/maker.hpp"
#include "bounds/examples/random.hpp"
#include "bounds/operations/layernorm_moments.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

constexpr List<Form> forms{{"two_pass"},        {"two_pass_folded"}, {"one_pass"},
                           {"one_pass_folded"}, {"welford"},         {"welford_folded"}};

// x a + c with all that does not depend on x in a and c; or (x r - mu r) w + b. The bound is the
// larger of both.
template <class T>
T folded(const T& x, const Moments<T>& m, const T& w, const T& b) {
  const T a = m.inverse_deviation * w;
  const T y = x * a + (b - m.mean * a);
  if constexpr (std::is_same_v<T, RunningError>) {
    const T& r = m.inverse_deviation;
    const T other = (x * r - m.mean * r) * w + b;
    return other.worst() > y.worst() ? other : y;
  }
  return y;
}

template <class T>
std::vector<Matrix<T>> forward(const Call<T>& call) {
  const Matrix<T>& x = call[0];
  const auto& w = call[1].values;
  const auto& b = call[2].values;
  const auto moments_of = moments_by(call);
  const bool folds = call.form % 2 == 1;
  Matrix<T> y(x.rows, x.cols, to_be_written);
  for (std::size_t t = 0; t < x.rows; ++t) {
    const Moments<T> m = moments_of(x.row(t), x.cols, call.attribute("eps"), call.sums);
    if (folds) {
      for (std::size_t j = 0; j < x.cols; ++j) y(t, j) = folded(x(t, j), m, w[j], b[j]);
      continue;
    }
    const auto& [mean, r] = m;
    for (std::size_t j = 0; j < x.cols; ++j) y(t, j) = (x(t, j) - mean) * r * w[j] + b[j];
  }
  call.roundings.round(y, call.how.output);
  return as_outputs(std::move(y));
}

void random_forward(RandomCall& c) {
  c.e.attributes = {{"eps", 1e-5}};
  const std::size_t way = c.draw.between(0, 2);
  if (way < 2) c.e.attributes[way == 0 ? "one_pass" : "welford"] = 1;
  c.table();
  c.moderate(c.cols, 1, 0.3, 1);
  c.give(c.cols, 1);
  c.one_part();
}
void shaped_forward(Maker& m) {
  m.e.attributes = {{"eps", 1e-5}};
  m.table();
  m.weights(m.cols);
  m.weights(m.cols);
}
}  // namespace

extern const Operation layernorm{
    .id = "layernorm",
    .evaluate = forward<float>,
    .value = forward<double>,
    .truth = forward<BigFloat>,
    .tolerance = tolerance_by<forward<RunningError>, forward<ErrorMoments>, 0>,
    .sums = SumOrder::chain,
    .schema = {.inputs = {{"x", "T", "D"}, {"w", "D", "1"}, {"b", "D", "1"}},
               .outputs = {{"y", "T", "D"}},
               .attributes = {real("eps"), or_else(flag("one_pass")), or_else(flag("welford"))}},
    .examples = {.random = random_forward, .shaped = shaped_forward},
    .sums_as_asked = true,
    .forms = forms,
};

}  // namespace plumb::bounds
