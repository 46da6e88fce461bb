// gelu: y = x sigma(2 c (x + a x^3)), c = sqrt(2/pi), a = 0.044715, sigma(z) = 1 / (1 + exp(-z)):
// the tanh form, written so that nothing cancels
//
//   inputs     x (N, M); of the gradient x, dy          outputs   y; of the gradient dx
//   evaluate   each step in FP32; one rounding to the output format
//   forms      sigmoid, as above; tanh: x (1 + tanh(c (x + a x^3))) / 2, which cancels where x is far
//              below zero: there its error is an ulp of 1 times x
#include "bounds/examples/maker.hpp"
#include "bounds/examples/random.hpp"
#include "bounds/operations/activations.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

constexpr double two_c = 1.5957691216057308;  // 2 sqrt(2/pi)
constexpr double a = 0.044715;

constexpr List<Form> forms{{"sigmoid"}, {"tanh"}};
constexpr std::size_t by_tanh = 1;

template <class T>
T gelu_of(T x) {
  return x * sigmoid(static_cast<T>(two_c) * (x + static_cast<T>(a) * x * x * x));
}
template <class T>
T gelu_by_tanh(T x) {
  using std::tanh;
  const T z = static_cast<T>(two_c / 2) * (x + static_cast<T>(a) * x * x * x);
  return static_cast<T>(0.5) * x * (T(1) + tanh(z));
}

template <class T>
T gelu_slope(T x) {
  const T s =
      with_named_error(sigmoid(static_cast<T>(two_c) * (x + static_cast<T>(a) * x * x * x)));
  const T inner = static_cast<T>(two_c) * (T(1) + static_cast<T>(3 * a) * x * x);
  return s + x * s * (T(1) - s) * inner;
}
template <class T>
T gelu_slope_by_tanh(T x) {
  using std::tanh;
  const T t =
      with_named_error(tanh(static_cast<T>(two_c / 2) * (x + static_cast<T>(a) * x * x * x)));
  const T inner = static_cast<T>(two_c / 2) * (T(1) + static_cast<T>(3 * a) * x * x);
  const T half = static_cast<T>(0.5);
  return half * (T(1) + t) + half * x * (T(1) - t * t) * inner;
}

template <class T>
std::vector<Matrix<T>> gelu_forward(const Call<T>& call) {
  if (call.form == by_tanh) return each(call, [](const T& x) { return gelu_by_tanh(x); });
  return each(call, [](const T& x) { return gelu_of(x); });
}

template <class T>
std::vector<Matrix<T>> gelu_backward(const Call<T>& call) {
  if (call.form == by_tanh)
    return each_slope(call, [](const T& x) { return gelu_slope_by_tanh(x); });
  return each_slope(call, [](const T& x) { return gelu_slope(x); });
}

}  // namespace

extern const Operation gelu{
    .id = "gelu",
    .evaluate = gelu_forward<float>,
    .value = gelu_forward<double>,
    .truth = gelu_forward<BigFloat>,
    .tolerance = tolerance_by<gelu_forward<RunningError>, gelu_forward<ErrorMoments>>,
    .sums = SumOrder::none,
    .schema = {.inputs = {{"x", "N", "M"}}, .outputs = {{"y", "N", "M"}}},
    .examples = {.random = table_to_cube, .shaped = one_table},
    .forms = forms,
};
extern const Operation gelu_grad{
    .id = "gelu_grad",
    .evaluate = gelu_backward<float>,
    .value = gelu_backward<double>,
    .truth = gelu_backward<BigFloat>,
    .tolerance = tolerance_by<gelu_backward<RunningError>, gelu_backward<ErrorMoments>>,
    .sums = SumOrder::none,
    .schema = {.inputs = {{"x", "N", "M"}, {"dy", "N", "M"}}, .outputs = {{"dx", "N", "M"}}},
    .examples = {.random = tables_to_cube, .shaped = two_tables},
    .forms = forms,
};

}  // namespace plumb::bounds
