// gelu, gelu_erf, silu, swiglu and their gradients; sigma(z) = 1 / (1 + exp(-z))
//
//   gelu       y = x sigma(2 c (x + a x^3)), c = sqrt(2/pi), a = 0.044715: the tanh form, written
//              so that nothing cancels                              inputs x; grad: x, dy
//   gelu_erf   y = x (1 + erf(x / sqrt 2)) / 2                      inputs x; grad: x, dy
//   silu       y = x sigma(x)                                       inputs x; grad: x, dy
//   swiglu     y_i = g_i sigma(g_i) u_i, with g_i = x_2i, u_i = x_2i+1 (gate and up are neighbours,
//              so that a tensor-parallel slice is contiguous)       inputs x; grad: x, dy
//   evaluate   each step in FP32; one rounding to the output format
#include <cmath>

#include "bounds/examples/maker.hpp"
#include "bounds/examples/random.hpp"
#include "bounds/tolerance.hpp"
#include "number/exponential.hpp"

namespace plumb::bounds {
namespace {

constexpr double two_c = 1.5957691216057308;  // 2 sqrt(2/pi)
constexpr double a = 0.044715;

template <class T>
T sigmoid(T z) {
  return T(1) / (T(1) + exp(-z));
}

template <class T>
T gelu_of(T x) {
  return x * sigmoid(static_cast<T>(two_c) * (x + static_cast<T>(a) * x * x * x));
}

template <class T>
T gelu_slope(T x) {
  const T s = shared(sigmoid(static_cast<T>(two_c) * (x + static_cast<T>(a) * x * x * x)));
  const T inner = static_cast<T>(two_c) * (T(1) + static_cast<T>(3 * a) * x * x);
  return s + x * s * (T(1) - s) * inner;
}

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
T silu_slope(T x) {
  const T s = shared(sigmoid(x));
  return s + x * s * (T(1) - s);
}

// y = f(x), and dx = dy slope(x).
template <class T, class F>
std::vector<Matrix<T>> each(const Call<T>& call, const F& f) {
  Matrix<T> y = call[0];
  for (T& x : y.values) x = f(x);
  call.roundings.round(y, call.how.output);
  return alone(std::move(y));
}
template <class T, class F>
std::vector<Matrix<T>> each_slope(const Call<T>& call, const F& slope) {
  Matrix<T> dx = call[1];
  for (std::size_t e = 0; e < dx.size(); ++e) dx.values[e] *= slope(call[0].values[e]);
  call.roundings.round(dx, call.how.output);
  return alone(std::move(dx));
}

template <class T>
std::vector<Matrix<T>> gelu_erf_forward(const Call<T>& call) {
  return each(call, [](const T& x) { return x * normal_share(x); });
}
template <class T>
std::vector<Matrix<T>> gelu_erf_backward(const Call<T>& call) {
  return each_slope(call, [](const T& x) { return gelu_erf_slope(x); });
}
template <class T>
std::vector<Matrix<T>> silu_forward(const Call<T>& call) {
  return each(call, [](const T& x) { return x * sigmoid(x); });
}
template <class T>
std::vector<Matrix<T>> silu_backward(const Call<T>& call) {
  return each_slope(call, [](const T& x) { return silu_slope(x); });
}

template <class T>
std::vector<Matrix<T>> gelu_forward(const Call<T>& call) {
  return each(call, [](const T& x) { return gelu_of(x); });
}
template <class T>
std::vector<Matrix<T>> gelu_backward(const Call<T>& call) {
  return each_slope(call, [](const T& x) { return gelu_slope(x); });
}

template <class T>
std::vector<Matrix<T>> swiglu_forward(const Call<T>& call) {
  const auto& x = call[0].values;
  Matrix<T> y(call[0].rows, call[0].cols / 2);
  for (std::size_t i = 0; i < y.size(); ++i) {
    y.values[i] = x[2 * i] * sigmoid(x[2 * i]) * x[2 * i + 1];
  }
  call.roundings.round(y, call.how.output);
  return {std::move(y)};
}

template <class T>
std::vector<Matrix<T>> swiglu_backward(const Call<T>& call) {
  const auto& x = call[0].values;
  const auto& dy = call[1].values;
  Matrix<T> dx(call[0].rows, call[0].cols);
  for (std::size_t i = 0; i < dy.size(); ++i) {
    const T g = x[2 * i];
    const T s = shared(sigmoid(g));
    dx.values[2 * i] = dy[i] * x[2 * i + 1] * (s + g * s * (T(1) - s));
    dx.values[2 * i + 1] = dy[i] * (g * s);
  }
  call.roundings.round(dx, call.how.output);
  return {std::move(dx)};
}

// The gradient of swiglu's output.
void half_a_table(RandomCall& c) {
  const bool cubes = c.draw.kind() == "huge";
  cubes ? c.moderate(c.rows, c.cols / 2, 1e9) : c.give(c.rows, c.cols / 2);
}

void gated(Maker& m) {
  m.need_columns(2, "an even number of columns: gate and up");
  m.table();
}

}  // namespace

extern const Operation gelu{
    .id = "gelu",
    .evaluate = gelu_forward<float>,
    .value = gelu_forward<double>,
    .truth = gelu_forward<Truth>,
    .tolerance = tolerance_by<gelu_forward<Near>, gelu_forward<Moment>>,
    .sums = SumOrder::none,
    .schema = {.inputs = {{"x", "N", "M"}}, .outputs = {{"y", "N", "M"}}},
    .examples = {.random = table_to_cube, .shaped = one_table},
};
extern const Operation gelu_grad{
    .id = "gelu_grad",
    .evaluate = gelu_backward<float>,
    .value = gelu_backward<double>,
    .truth = gelu_backward<Truth>,
    .tolerance = tolerance_by<gelu_backward<Near>, gelu_backward<Moment>>,
    .sums = SumOrder::none,
    .schema = {.inputs = {{"x", "N", "M"}, {"dy", "N", "M"}}, .outputs = {{"dx", "N", "M"}}},
    .examples = {.random = tables_to_cube, .shaped = two_tables},
};
extern const Operation gelu_erf{
    .id = "gelu_erf",
    .evaluate = gelu_erf_forward<float>,
    .value = gelu_erf_forward<double>,
    .truth = gelu_erf_forward<Truth>,
    .tolerance = tolerance_by<gelu_erf_forward<Near>, gelu_erf_forward<Moment>>,
    .sums = SumOrder::none,
    .schema = {.inputs = {{"x", "N", "M"}}, .outputs = {{"y", "N", "M"}}},
    .examples = {.random = table_to_cube, .shaped = one_table},
};
extern const Operation gelu_erf_grad{
    .id = "gelu_erf_grad",
    .evaluate = gelu_erf_backward<float>,
    .value = gelu_erf_backward<double>,
    .truth = gelu_erf_backward<Truth>,
    .tolerance = tolerance_by<gelu_erf_backward<Near>, gelu_erf_backward<Moment>>,
    .sums = SumOrder::none,
    .schema = {.inputs = {{"x", "N", "M"}, {"dy", "N", "M"}}, .outputs = {{"dx", "N", "M"}}},
    .examples = {.random = tables_to_cube, .shaped = two_tables},
};
extern const Operation silu{
    .id = "silu",
    .evaluate = silu_forward<float>,
    .value = silu_forward<double>,
    .truth = silu_forward<Truth>,
    .tolerance = tolerance_by<silu_forward<Near>, silu_forward<Moment>>,
    .sums = SumOrder::none,
    .schema = {.inputs = {{"x", "N", "M"}}, .outputs = {{"y", "N", "M"}}},
    .examples = {.random = table_to_cube, .shaped = one_table},
};
extern const Operation silu_grad{
    .id = "silu_grad",
    .evaluate = silu_backward<float>,
    .value = silu_backward<double>,
    .truth = silu_backward<Truth>,
    .tolerance = tolerance_by<silu_backward<Near>, silu_backward<Moment>>,
    .sums = SumOrder::none,
    .schema = {.inputs = {{"x", "N", "M"}, {"dy", "N", "M"}}, .outputs = {{"dx", "N", "M"}}},
    .examples = {.random = tables_to_cube, .shaped = two_tables},
};
extern const Operation swiglu{
    .id = "swiglu",
    .evaluate = swiglu_forward<float>,
    .value = swiglu_forward<double>,
    .truth = swiglu_forward<Truth>,
    .tolerance = tolerance_by<swiglu_forward<Near>, swiglu_forward<Moment>>,
    .sums = SumOrder::none,
    .schema = {.inputs = {{"x", "N", "2 H"}}, .outputs = {{"y", "N", "H"}}},
    .examples = {.random = table_to_cube, .shaped = gated},
};
extern const Operation swiglu_grad{
    .id = "swiglu_grad",
    .evaluate = swiglu_backward<float>,
    .value = swiglu_backward<double>,
    .truth = swiglu_backward<Truth>,
    .tolerance = tolerance_by<swiglu_backward<Near>, swiglu_backward<Moment>>,
    .sums = SumOrder::none,
    .schema = {.inputs = {{"x", "N", "2 H"}, {"dy", "N", "H"}}, .outputs = {{"dx", "N", "2 H"}}},
    .examples = {.random = [](RandomCall& c) { table_to_cube(c), half_a_table(c); },
                 .shaped = [](Maker& m) { gated(m), m.drawn(m.rows, m.cols / 2); }},
};

}  // namespace plumb::bounds
