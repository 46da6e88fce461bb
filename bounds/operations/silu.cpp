// silu: y = x sigma(x), sigma(z) = 1 / (1 + exp(-z))
//
//   inputs     x (N, M); of the gradient x, dy          outputs   y; of the gradient dx
//   evaluate   each step in FP32; one rounding to the output format
//   forms      of the gradient: sum, dx = dy (s + x s (1 - s)); product, dx = (dy s) (1 + x (1 - s)),
//              whose first factor may be subnormal where dx is not
#include "bounds/examples/maker.hpp"
#include "bounds/examples/random.hpp"
#include "bounds/operations/activations.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

constexpr List<Form> gradient_forms{{"sum"}, {"product"}};
constexpr std::size_t by_product = 1;

template <class T>
T silu_slope(T x) {
  const T s = with_named_error(sigmoid(x));
  return s + x * s * (T(1) - s);
}

template <class T>
std::vector<Matrix<T>> silu_forward(const Call<T>& call) {
  return each(call, [](const T& x) { return times_sigmoid(x); });
}

template <class T>
std::vector<Matrix<T>> silu_backward(const Call<T>& call) {
  if (call.form != by_product) return each_slope(call, [](const T& x) { return silu_slope(x); });
  const auto& x = call[0].values;
  Matrix<T> dx = call[1];
  for (std::size_t e = 0; e < dx.size(); ++e) {
    const T s = with_named_error(sigmoid(x[e]));
    dx.values[e] = dx.values[e] * s * (T(1) + x[e] * (T(1) - s));
  }
  call.roundings.round(dx, call.how.output);
  return as_outputs(std::move(dx));
}

}  // namespace

extern const Operation silu{
    .id = "silu",
    .evaluate = silu_forward<float>,
    .value = silu_forward<double>,
    .truth = silu_forward<BigFloat>,
    .tolerance = tolerance_by<silu_forward<RunningError>, silu_forward<ErrorMoments>>,
    .sums = SumOrder::none,
    .schema = {.inputs = {{"x", "N", "M"}}, .outputs = {{"y", "N", "M"}}},
    .examples = {.random = table_to_cube, .shaped = one_table},
};
extern const Operation silu_grad{
    .id = "silu_grad",
    .evaluate = silu_backward<float>,
    .value = silu_backward<double>,
    .truth = silu_backward<BigFloat>,
    .tolerance = tolerance_by<silu_backward<RunningError>, silu_backward<ErrorMoments>>,
    .sums = SumOrder::none,
    .schema = {.inputs = {{"x", "N", "M"}, {"dy", "N", "M"}}, .outputs = {{"dx", "N", "M"}}},
    .examples = {.random = tables_to_cube, .shaped = two_tables},
    .forms = gradient_forms,
};

}  // namespace plumb::bounds
