// gelu_erf: y = x (1 + erf(x / sqrt 2)) / 2
//
//   inputs     x (N, M); of the gradient x, dy          outputs   y; of the gradient dx
//   evaluate   each step in FP32; one rounding to the output format
#include <cmath>

#include "bounds/examples/maker.hpp"
#include "bounds/examples/random.hpp"
#include "bounds/operations/activations.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

template <class T>
T normal_share(T x) {  // the share of the standard normal below x
  using std::erf;
  constexpr double root_half = 0.70710678118654752;
  return static_cast<T>(0.5) * (T(1) + erf(x * static_cast<T>(root_half)));
}

template <class T>
T gelu_erf_slope(T x) {
  constexpr double density_at_0 = 0.39894228040143268;
  return normal_share(x) + x * (exp(static_cast<T>(-0.5) * x * x) * static_cast<T>(density_at_0));
}

template <class T>
std::vector<Matrix<T>> gelu_erf_forward(const Call<T>& call) {
  return each(call, [](const T& x) { return x * normal_share(x); });
}

template <class T>
std::vector<Matrix<T>> gelu_erf_backward(const Call<T>& call) {
  return each_slope(call, [](const T& x) { return gelu_erf_slope(x); });
}

}  // namespace

extern const Operation gelu_erf{
    .id = "gelu_erf",
    .evaluate = gelu_erf_forward<float>,
    .value = gelu_erf_forward<double>,
    .truth = gelu_erf_forward<BigFloat>,
    .tolerance = tolerance_by<gelu_erf_forward<RunningError>, gelu_erf_forward<ErrorMoments>>,
    .sums = SumOrder::none,
    .schema = {.inputs = {{"x", "N", "M"}}, .outputs = {{"y", "N", "M"}}},
    .examples = {.random = table_to_cube, .shaped = one_table},
};
extern const Operation gelu_erf_grad{
    .id = "gelu_erf_grad",
    .evaluate = gelu_erf_backward<float>,
    .value = gelu_erf_backward<double>,
    .truth = gelu_erf_backward<BigFloat>,
    .tolerance = tolerance_by<gelu_erf_backward<RunningError>, gelu_erf_backward<ErrorMoments>>,
    .sums = SumOrder::none,
    .schema = {.inputs = {{"x", "N", "M"}, {"dy", "N", "M"}}, .outputs = {{"dx", "N", "M"}}},
    .examples = {.random = tables_to_cube, .shaped = two_tables},
};

}  // namespace plumb::bounds
