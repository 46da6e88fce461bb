// adam: m' = b1 m + (1-b1) g
//       v' = b2 v + (1-b2) g^2
//       w' = w - lr (m'/(1-b1^t)) / (sqrt(v'/(1-b2^t)) + eps)
//
//   inputs       w (N, M), m, v, g, [skip (1, 1)]        outputs   m', v', w'
//   attributes   lr, beta1, beta2, eps, step (t, from 1); weight_decay (AdamW: first w <- w - lr
//                weight_decay w; default 0)
//   evaluate     each step in FP32, nothing is cast. Where `skip` is not 0 the step is left out:
//                all outputs are what they were, whatever the gradient holds.
#include <algorithm>
#include <cmath>

#include "bounds/examples/maker.hpp"
#include "bounds/examples/random.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

// Is this step to be left out?
template <class T, class C>
bool skipped(const C& call) {
  return call.inputs.size() > 4 && T(0) < call[4].values[0];
}

template <class T>
std::vector<Matrix<T>> evaluate(const Call<T>& call) {
  using std::sqrt;
  const double b1 = call.attribute("beta1");
  const double b2 = call.attribute("beta2");
  const double t = call.attribute("step");
  const T m_share = static_cast<T>(b1);
  const T v_share = static_cast<T>(b2);
  const T m_fix = static_cast<T>(1 - std::pow(b1, t));
  const T v_fix = static_cast<T>(1 - std::pow(b2, t));
  const T rate = static_cast<T>(call.attribute("lr"));
  const T eps = static_cast<T>(call.attribute("eps"));
  const double decay = call.attribute("lr") * call.attribute("weight_decay", 0);
  Matrix<T> w = call[0];
  Matrix<T> m = call[1];
  Matrix<T> v = call[2];
  if (skipped<T>(call)) return {std::move(m), std::move(v), std::move(w)};
  for (std::size_t e = 0; e < w.size(); ++e) {
    const T g = call[3].values[e];
    m.values[e] = m_share * m.values[e] + (T(1) - m_share) * g;
    v.values[e] = v_share * v.values[e] + (T(1) - v_share) * g * g;
    if (decay != 0) w.values[e] -= static_cast<T>(decay) * w.values[e];
    w.values[e] -= rate * (m.values[e] / m_fix) / (sqrt(v.values[e] / v_fix) + eps);
  }
  return {std::move(m), std::move(v), std::move(w)};
}

// The gradient of a step that is left out is mostly not finite, and nobody looks at it.
Outcome<Tolerance> tolerance(const ToleranceCall& call) {
  constexpr auto derived = tolerance_by<evaluate<RunningError>, evaluate<ErrorMoments>>;
  if (!skipped<double>(call)) return derived(call);
  const Matrix<double> none(call[3].rows, call[3].cols);
  ToleranceCall without = call;
  without.inputs[3] = &none;
  return derived(without);
}

void random(RandomCall& c) {
  c.e.attributes = {
      {"lr", 1e-3}, {"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}, {"step", c.whole(1, 50)}};
  if (c.draw.coin()) c.e.attributes["weight_decay"] = 0.1;
  for (int i = 0; i < 4; ++i) c.table();
  for (double& v : c.e.inputs[2].values) {
    v = static_cast<double>(static_cast<float>(std::min(v * v, 1e30)));
  }
  if (c.draw.coin()) c.add(Matrix<double>(1, 1, c.draw.between(0, 9) == 0 ? 1 : 0));
}

// In its tenth step.
void shaped(Maker& m) {
  m.table();
  for (const double power : {1.0, 2.0}) {
    m.filled(m.rows, m.cols, 0);
    Matrix<double>& state = m.e.inputs.back();
    for (std::size_t i = 0; i < state.size(); ++i) {
      const double g = std::fabs(normal_at(100 + m.e.inputs.size(), i)) + 0.1;
      state.values[i] = round_to(std::pow(0.3 * g, power), fp32);
    }
  }
  m.table();
  m.e.attributes = {{"lr", 1e-3}, {"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}, {"step", 10}};
}

}  // namespace

extern const Operation adam{
    .id = "adam",
    .evaluate = evaluate<float>,
    .value = evaluate<double>,
    .truth = evaluate<BigFloat>,
    .tolerance = tolerance,
    .sums = SumOrder::none,
    .schema = {.inputs = {{"w", "N", "M"},
                          {"m", "N", "M"},
                          {"v", "N", "M"},
                          {"g", "N", "M"},
                          optional({"skip", "1", "1"})},
               .outputs = {{"m", "N", "M"}, {"v", "N", "M"}, {"w", "N", "M"}},
               .attributes = {real("lr"), real("beta1"), real("beta2"), real("eps"), count("step"),
                              or_else(real("weight_decay"))}},
    .examples = {.random = random, .shaped = shaped},
};

}  // namespace plumb::bounds
