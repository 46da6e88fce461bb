// sum: y = x_0 + x_1 + ... over whole tensors, as gradients are accumulated over micro-batches
//
//   inputs   x_0 ... x_{n-1}, each (N, M)        y (N, M)
//   evaluate   part p takes the inputs p, p + parts, p + 2 parts ... in this order, in FP32; parts
//              are combined on the wire
#include "bounds/tolerance.hpp"

namespace plumb {
namespace {

template <class T>
std::vector<Matrix<T>> evaluate(const Call<T>& call) {
  const auto ranks = static_cast<std::size_t>(call.how.parts);
  std::vector<Matrix<T>> parts(ranks, Matrix<T>(call[0].rows, call[0].cols));
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    Matrix<T>& part = parts[i % ranks];
    for (std::size_t e = 0; e < part.size(); ++e) part.values[e] += call[i].values[e];
  }
  Matrix<T> y = combined(std::move(parts), call.how, call.roundings);
  call.roundings.round(y, call.how.output);
  return {std::move(y)};
}

}  // namespace

extern const Operation sum{"sum", evaluate<float>, evaluate<double>, evaluate<Truth>,
                           tolerance_by<evaluate<Near>, evaluate<Moment>>};

}  // namespace plumb
