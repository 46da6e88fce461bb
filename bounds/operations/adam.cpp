// adam: m' = b1 m + (1-b1) g;  v' = b2 v + (1-b2) g^2;
//       w' = w - lr (m'/(1-b1^t)) / (sqrt(v'/(1-b2^t)) + eps);  parameter = cast(w')
//
//   inputs   w (N, M) FP32 master, m, v, g        outputs   m', v', w', parameter
//   attributes   lr, beta1, beta2, eps, step (t, from 1); weight_decay (AdamW: first w <- w - lr
//                weight_decay w; default 0)
//   evaluate   each step in FP32; only the parameter is rounded to the output format
#include <cmath>

#include "bounds/tolerance.hpp"

namespace plumb {
namespace {

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
  for (std::size_t e = 0; e < w.size(); ++e) {
    const T g = call[3].values[e];
    m.values[e] = m_share * m.values[e] + (T(1) - m_share) * g;
    v.values[e] = v_share * v.values[e] + (T(1) - v_share) * g * g;
    if (decay != 0) w.values[e] -= static_cast<T>(decay) * w.values[e];
    w.values[e] -= rate * (m.values[e] / m_fix) / (sqrt(v.values[e] / v_fix) + eps);
  }
  Matrix<T> parameter = w;
  call.roundings.round(parameter, call.how.output);
  return {std::move(m), std::move(v), std::move(w), std::move(parameter)};
}

}  // namespace

extern const Operation adam{"adam", evaluate<float>, evaluate<double>, evaluate<Truth>,
                            tolerance_by<evaluate<Near>, evaluate<Moment>>};

}  // namespace plumb
