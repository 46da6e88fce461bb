// swiglu: y_i = g_i sigma(g_i) u_i, with g_i = x_2i, u_i = x_2i+1 (gate and up are neighbours, so
// that a tensor-parallel slice is contiguous), sigma(z) = 1 / (1 + exp(-z))
//
//   inputs     x (N, 2 H); of the gradient x, dy (N, H)      outputs   y (N, H); of the gradient dx
//   evaluate   each step in FP32; one rounding to the output format
#include "bounds/examples/maker.hpp"
#include "bounds/examples/random.hpp"
#include "bounds/operations/activations.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

template <class T>
std::vector<Matrix<T>> swiglu_forward(const Call<T>& call) {
  const auto& x = call[0].values;
  Matrix<T> y(call[0].rows, call[0].cols / 2);
  for (std::size_t i = 0; i < y.size(); ++i) {
    y.values[i] = times_sigmoid(x[2 * i]) * x[2 * i + 1];
  }
  call.roundings.round(y, call.how.output);
  return as_outputs(std::move(y));
}

template <class T>
std::vector<Matrix<T>> swiglu_backward(const Call<T>& call) {
  const auto& x = call[0].values;
  const auto& dy = call[1].values;
  Matrix<T> dx(call[0].rows, call[0].cols);
  for (std::size_t i = 0; i < dy.size(); ++i) {
    const T g = x[2 * i];
    const T s = with_named_error(sigmoid(g));
    dx.values[2 * i] = dy[i] * x[2 * i + 1] * (s + g * s * (T(1) - s));
    dx.values[2 * i + 1] = dy[i] * (g * s);
  }
  call.roundings.round(dx, call.how.output);
  return as_outputs(std::move(dx));
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

extern const Operation swiglu{
    .id = "swiglu",
    .evaluate = swiglu_forward<float>,
    .value = swiglu_forward<double>,
    .truth = swiglu_forward<BigFloat>,
    .tolerance = tolerance_by<swiglu_forward<RunningError>, swiglu_forward<ErrorMoments>>,
    .sums = SumOrder::none,
    .schema = {.inputs = {{"x", "N", "2 H"}}, .outputs = {{"y", "N", "H"}}},
    .examples = {.random = table_to_cube, .shaped = gated},
};
extern const Operation swiglu_grad{
    .id = "swiglu_grad",
    .evaluate = swiglu_backward<float>,
    .value = swiglu_backward<double>,
    .truth = swiglu_backward<BigFloat>,
    .tolerance = tolerance_by<swiglu_backward<RunningError>, swiglu_backward<ErrorMoments>>,
    .sums = SumOrder::none,
    .schema = {.inputs = {{"x", "N", "2 H"}, {"dy", "N", "H"}}, .outputs = {{"dx", "N", "2 H"}}},
    .examples = {.random = [](RandomCall& c) { table_to_cube(c), half_a_table(c); },
                 .shaped = [](Maker& m) { gated(m), m.drawn(m.rows, m.cols / 2); }},
};

}  // namespace plumb::bounds
