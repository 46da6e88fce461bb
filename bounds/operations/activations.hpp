// bounds/operations/activations.hpp: what functions of one number share: y = f(x),
// dx = dy slope(x), each step in FP32, one rounding to the output format.
#pragma once

#include <type_traits>

#include "bounds/operation.hpp"
#include "bounds/proof/running_error.hpp"
#include "bounds/sees.hpp"
#include "number/exponential.hpp"

namespace plumb::bounds {

// (A loop of it becomes vector code only where it is no call; GCC 12 calls it if it may.)
template <class T>
[[gnu::always_inline]] inline T sigmoid(T z) {
  return T(1) / (T(1) + exp(-z));
}

// x sigma(x), or x / (1 + exp(-x)): where a quotient errs by more than a rounding, the result's own
// ulp may be larger than x times that of sigma.
template <class T>
T times_sigmoid(const T& x) {
  T y = x * sigmoid(x);
  if constexpr (std::is_same_v<T, RunningError>) {
    const double ulps = arithmetic_in_force.divide_ulp;
    if (ulps > 0.5 && y.most() > 0) {
      y.err(term<"activations.quotient">(2 * ulps * RunningError::half_spacing_fp32(y.most())),
            Share::steps);
    }
  }
  return y;
}

// y = f(x), and dx = dy slope(x).
template <class T, class F>
std::vector<Matrix<T>> each(const Call<T>& call, const F& f) {
  Matrix<T> y = call[0];
  for (T& x : y.values) x = f(x);
  call.roundings.round(y, call.how.output);
  return as_outputs(std::move(y));
}

template <class T, class F>
std::vector<Matrix<T>> each_slope(const Call<T>& call, const F& slope) {
  const auto& x = call[0].values;
  Matrix<T> dx = call[1];
  for (std::size_t e = 0; e < dx.size(); ++e) dx.values[e] *= slope(x[e]);
  call.roundings.round(dx, call.how.output);
  return as_outputs(std::move(dx));
}

}  // namespace plumb::bounds
