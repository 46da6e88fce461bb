// adam: m' = b1 m + (1-b1) g
//       v' = b2 v + (1-b2) g^2
//       w' = w - lr (m'/(1-b1^t)) / (sqrt(v'/(1-b2^t)) + eps)
//
//   inputs       w (N, M), m, v, g, [skip (1, 1)]        outputs   m', v', w'
//   attributes   lr, beta1, beta2, eps, step (t, from 1); weight_decay (AdamW: first w <- w - lr
//                weight_decay w; default 0), stepwise (a flag)
//   evaluate     each step in FP32, nothing is cast. Where `skip` is not 0 the step is left out:
//                all outputs are what they were, whatever the gradient holds. `stepwise`: weights
//                and states are of the output format, and so is what each of a framework's
//                operations returns, [PyTorch-Adam] without `fused`: m'; b2 v; v'; decayed w;
//                sqrt(v'), over sqrt(1-b2^t), plus eps; w'. The bound holds where some of these
//                are not rounded, too.
//   forms        quotients, as above; factors [PyTorch-Adam]: m' = m + (1-b1) (g-m), first
//                w <- (1 - lr weight_decay) w, and w' = w - (lr/(1-b1^t)) m' / (sqrt(v')/sqrt(1-b2^t)
//                + eps); joined [Apex-Adam]: w' = w - lr (quotient + weight_decay w)
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

constexpr List<Form> forms{{"quotients"}, {"factors"}, {"joined"}};
constexpr std::size_t by_factors = 1, joined = 2;

// What a call says, as the double that it is.
struct Rates {
  double beta1, beta2, rate, eps, decay, left1, left2;  // left: 1 - beta^t
};
template <class C>
Rates rates_of(const C& call) {
  const double b1 = call.attribute("beta1"), b2 = call.attribute("beta2");
  const double t = call.attribute("step");
  return {b1,
          b2,
          call.attribute("lr"),
          call.attribute("eps"),
          call.attribute("weight_decay", 0),
          1 - std::pow(b1, t),
          1 - std::pow(b2, t)};
}

// One weight and its moments.
template <class T>
struct Weight {
  T &w, &m, &v;
};

template <class T>
void update(const Weight<T>& x, const T& g, const Rates& by) {
  using std::sqrt;
  const T m_share = static_cast<T>(by.beta1), v_share = static_cast<T>(by.beta2);
  x.m = m_share * x.m + (T(1) - m_share) * g;
  x.v = v_share * x.v + (T(1) - v_share) * g * g;
  if (by.decay != 0) x.w -= static_cast<T>(by.rate * by.decay) * x.w;
  x.w -= static_cast<T>(by.rate) * (x.m / static_cast<T>(by.left1)) /
         (sqrt(x.v / static_cast<T>(by.left2)) + static_cast<T>(by.eps));
}

// All that depends on no weight is one factor, which is rounded once.
template <class T>
void update_by_factors(const Weight<T>& x, const T& g, const Rates& by) {
  using std::sqrt;
  x.m += static_cast<T>(1 - by.beta1) * (g - x.m);
  x.v = static_cast<T>(by.beta2) * x.v + static_cast<T>(1 - by.beta2) * g * g;
  if (by.decay != 0) x.w = static_cast<T>(1 - by.rate * by.decay) * x.w;
  const T root = sqrt(x.v) / static_cast<T>(std::sqrt(by.left2)) + static_cast<T>(by.eps);
  x.w -= static_cast<T>(by.rate / by.left1) * x.m / root;
}

// What decays is added to the quotient.
template <class T>
void update_joined(const Weight<T>& x, const T& g, const Rates& by) {
  using std::sqrt;
  const T m_share = static_cast<T>(by.beta1), v_share = static_cast<T>(by.beta2);
  x.m = m_share * x.m + (T(1) - m_share) * g;
  x.v = v_share * x.v + (T(1) - v_share) * g * g;
  T u = (x.m / static_cast<T>(by.left1)) /
        (sqrt(x.v / static_cast<T>(by.left2)) + static_cast<T>(by.eps));
  if (by.decay != 0) u += static_cast<T>(by.decay) * x.w;
  x.w -= static_cast<T>(by.rate) * u;
}

// Whole tensors, one operation after another, each of which returns the output format.
template <class T>
std::vector<Matrix<T>> stepwise(const Call<T>& call, const Rates& by) {
  using std::sqrt;
  Matrix<T> w = call[0], m = call[1], v = call[2];
  const auto each = [&](Matrix<T>& of, auto makes) {
    for (std::size_t e = 0; e < of.size(); ++e) makes(of.values[e], e);
    call.roundings.round(of, call.how.output);
  };
  const auto g = [&](std::size_t e) -> const T& { return call[3].values[e]; };
  each(m, [&](T& x, std::size_t e) { x += static_cast<T>(1 - by.beta1) * (g(e) - x); });
  each(v, [&](T& x, std::size_t) { x *= static_cast<T>(by.beta2); });
  each(v, [&](T& x, std::size_t e) { x += static_cast<T>(1 - by.beta2) * g(e) * g(e); });
  if (by.decay != 0) {
    each(w, [&](T& x, std::size_t) { x *= static_cast<T>(1 - by.rate * by.decay); });
  }
  Matrix<T> root = v;
  each(root, [](T& x, std::size_t) { x = sqrt(x); });
  each(root, [&](T& x, std::size_t) { x = x / static_cast<T>(std::sqrt(by.left2)); });
  each(root, [&](T& x, std::size_t) { x += static_cast<T>(by.eps); });
  each(w, [&](T& x, std::size_t e) {
    x -= static_cast<T>(by.rate / by.left1) * m.values[e] / root.values[e];
  });
  return as_outputs(std::move(m), std::move(v), std::move(w));
}

template <class T>
std::vector<Matrix<T>> evaluate(const Call<T>& call) {
  Matrix<T> w = call[0], m = call[1], v = call[2];
  if (skipped<T>(call)) return as_outputs(std::move(m), std::move(v), std::move(w));
  const Rates by = rates_of(call);
  if (call.attribute("stepwise", 0) != 0) return stepwise(call, by);
  const auto& g_of = call[3].values;
  const auto each = [&](auto formula) {
    for (std::size_t e = 0; e < w.size(); ++e) {
      formula(Weight<T>{w.values[e], m.values[e], v.values[e]}, g_of[e]);
    }
  };
  if (call.form == by_factors) {
    each([&](const Weight<T>& x, const T& g) { update_by_factors(x, g, by); });
  } else if (call.form == joined) {
    each([&](const Weight<T>& x, const T& g) { update_joined(x, g, by); });
  } else {
    each([&](const Weight<T>& x, const T& g) { update(x, g, by); });
  }
  return as_outputs(std::move(m), std::move(v), std::move(w));
}

// With every step in place, it takes half the time: weights are many.
[[gnu::flatten]] std::vector<Matrix<WorstError>> worst_case(const Call<WorstError>& call) {
  return evaluate<WorstError>(call);
}

// The gradient of a step that is left out is mostly not finite, and nobody looks at it.
Outcome<Tolerance> tolerance(const ToleranceCall& call) {
  constexpr auto derived = tolerance_by<evaluate<RunningError>, evaluate<ErrorMoments>>;
  if (call.inputs.size() == 4 && call.mode == Mode::deterministic && !call.terms) {
    return bounds_by_place(call, worst_case);
  }
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
  if (c.draw.coin()) {
    c.e.attributes["stepwise"] = 1;
    for (Matrix<double>& x : c.e.inputs) {
      for (double& value : x.values) value = round_to(value, c.e.how.output, {.saturate = true});
    }
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
    .traits = {.updates = true},
    .schema = {.inputs = {{"w", "N", "M"},
                          {"m", "N", "M"},
                          {"v", "N", "M"},
                          {"g", "N", "M"},
                          optional({"skip", "1", "1"})},
               .outputs = {{"m", "N", "M"}, {"v", "N", "M"}, {"w", "N", "M"}},
               .attributes = {real("lr"), real("beta1"), real("beta2"), real("eps"), count("step"),
                              or_else(real("weight_decay")), or_else(flag("stepwise"))}},
    .examples = {.random = random, .shaped = shaped},
    .forms = forms,
};

}  // namespace plumb::bounds
