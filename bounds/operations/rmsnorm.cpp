// rmsnorm: y = x r w,  r = 1 / sqrt(sum_j x_j^2 / D + eps)
//
//   inputs       x (T, D), w (D, 1)        y (T, D)
//   attributes   eps
//   evaluate     the sum is a chain of fused multiply-adds; then sqrt, division, (x r) w, each
//                rounded to FP32; one rounding to the output format
// Also here: rmsnorm_grad (dx) and rmsnorm_wgrad (dw).
//   dx = r (dy w - xhat c),  c = sum_j dy_j w_j xhat_j / D,  xhat = x r          inputs x, w, dy
//   dw_j = sum_t dy_tj xhat_tj, tokens in `parts` slices                         inputs x, w, dy
// The norm of each query and key head of packed qkv: bounds/operations/head_norm.cpp.
#include "bounds/examples/maker.hpp"
#include "bounds/examples/random.hpp"
#include "bounds/operations/column_sums.hpp"
#include "bounds/operations/rms.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

template <class T>
std::vector<Matrix<T>> forward(const Call<T>& call) {
  Matrix<T> y = rms_normalized(call[0], call[1], call.attribute("eps"), call.sums);
  call.roundings.round(y, call.how.output);
  return as_outputs(std::move(y));
}

template <class T>
std::vector<Matrix<T>> grad(const Call<T>& call) {
  Matrix<T> dx = rms_gradient(call[0], call[1], call[2], call.attribute("eps"), call.sums);
  call.roundings.round(dx, call.how.output);
  return as_outputs(std::move(dx));
}

template <class T>
std::vector<Matrix<T>> wgrad(const Call<T>& call) {
  const Matrix<T> terms = rms_weight_terms(call[0], call[2], call.attribute("eps"), call.sums);
  return as_outputs(column_sums(terms, call.how, call.roundings, call.sums));
}

void random_forward(RandomCall& c) {
  c.e.attributes = {{"eps", 1e-5}};
  c.table();
  c.moderate(c.cols, 1, 0.3, 1);
  c.one_part();
}
void random_wgrad(RandomCall& c) {
  c.e.attributes = {{"eps", 1e-5}};
  c.table();
  c.moderate(c.cols, 1, 0.3, 1);
  c.table();
}
void random_grad(RandomCall& c) {
  random_wgrad(c);
  c.one_part();
}

void shaped_forward(Maker& m) {
  m.e.attributes = {{"eps", 1e-5}};
  m.table();
  m.weights(m.cols);
}
void shaped_grad(Maker& m) {
  m.e.attributes = {{"eps", 1e-5}};
  m.table();
  m.weights(m.cols);
  m.table();
}

}  // namespace

extern const Operation rmsnorm{
    .id = "rmsnorm",
    .evaluate = forward<float>,
    .value = forward<double>,
    .truth = forward<BigFloat>,
    .tolerance = tolerance_of_squares_by<forward<RunningError>, forward<ErrorMoments>, 0>,
    .sums = SumOrder::chain,
    .schema = {.inputs = {{"x", "T", "D"}, {"w", "D", "1"}},
               .outputs = {{"y", "T", "D"}},
               .attributes = {real("eps")}},
    .examples = {.random = random_forward, .shaped = shaped_forward},
    .sums_as_asked = true,
};
extern const Operation rmsnorm_grad{
    .id = "rmsnorm_grad",
    .evaluate = grad<float>,
    .value = grad<double>,
    .truth = grad<BigFloat>,
    .tolerance = tolerance_of_squares_by<grad<RunningError>, grad<ErrorMoments>, 0, 2>,
    .sums = SumOrder::chain,
    .schema = {.inputs = {{"x", "T", "D"}, {"w", "D", "1"}, {"dy", "T", "D"}},
               .outputs = {{"dx", "T", "D"}},
               .attributes = {real("eps")}},
    .examples = {.random = random_grad, .shaped = shaped_grad},
    .sums_as_asked = true,
};
extern const Operation rmsnorm_wgrad{
    .id = "rmsnorm_wgrad",
    .evaluate = wgrad<float>,
    .value = wgrad<double>,
    .truth = wgrad<BigFloat>,
    .tolerance = tolerance_of_squares_by<wgrad<RunningError>, wgrad<ErrorMoments>, 0, 2>,
    .sums = SumOrder::chain,
    .schema = {.inputs = {{"x", "T", "D"}, {"w", "D", "1"}, {"dy", "T", "D"}},
               .outputs = {{"dw", "D", "1"}},
               .attributes = {real("eps")},
               .dealt = "T"},
    .examples = {.random = [](RandomCall& c) { random_wgrad(c), c.shard_tokens(c.rows); },
                 .shaped = shaped_grad,
                 .usual = "4096x16"},
    .sums_as_asked = true,
};

}  // namespace plumb::bounds
