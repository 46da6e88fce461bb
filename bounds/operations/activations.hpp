// bounds/operations/activations.hpp: what functions of one number share: y = f(x),
// dx = dy slope(x), each step in FP32, one rounding to the output format.
#pragma once

#include "bounds/operation.hpp"
#include "bounds/sees.hpp"
#include "number/exponential.hpp"

namespace plumb::bounds {

template <class T>
T sigmoid(T z) {
  return T(1) / (T(1) + exp(-z));
}

// y = f(x), and dx = dy slope(x).
template <class T, class F>
std::vector<Matrix<T>> each(const Call<T>& call, const F& f) {
  Matrix<T> y = call[0];
  for (T& x : y.values) x = f(x);
  call.roundings.round(y, call.how.output);
  return single_output(std::move(y));
}

template <class T, class F>
std::vector<Matrix<T>> each_slope(const Call<T>& call, const F& slope) {
  Matrix<T> dx = call[1];
  for (std::size_t e = 0; e < dx.size(); ++e) dx.values[e] *= slope(call[0].values[e]);
  call.roundings.round(dx, call.how.output);
  return single_output(std::move(dx));
}

}  // namespace plumb::bounds
