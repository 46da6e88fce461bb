// layernorm_wgrad: dw_j = sum_t dy_tj xhat_tj,  db_j = sum_t dy_tj,  xhat = (x - mu) r
//
//   inputs       x (T, D), w (D, 1), dy (T, D)       dw, db (D, 1)
//   attributes   eps
//   evaluate     mu and r in two passes, as layernorm.cpp says; each step rounded to FP32; tokens in
//                `parts` slices, each a chain; one rounding to the output format
//   forms        layernorm_gradients.hpp; folded: xhat = x r - mu r
// SOURCES  theory.md N3, D7
#include "bounds/operations/column_sums.hpp"
#include "bounds/operations/layernorm_gradients.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

template <class T>
std::vector<Matrix<T>> wgrad(const Call<T>& call) {
  const Matrix<T>& x = call[0];
  Matrix<T> products = call[2];
  for (std::size_t t = 0; t < x.rows; ++t) {
    const auto [mean, r] = moments_in(call, t);
    const T offset = folds(call.form) ? mean * r : T(0);
    for (std::size_t j = 0; j < x.cols; ++j) {
      const T plain = (x(t, j) - mean) * r;
      products(t, j) *= folds(call.form) ? of_either(true, plain, x(t, j) * r - offset) : plain;
    }
  }
  SumsIn in = call.sums;
  if (call.form == stored) in.kept = call.how.output;
  Matrix<T> dw = column_sums(products, call.how, call.roundings, in);
  return as_outputs(std::move(dw), column_sums(call[2], call.how, call.roundings, in));
}

void dealt(RandomCall& c) {
  random_norm_gradient(c);
  c.shard_tokens(c.rows);
}

}  // namespace

extern const Operation layernorm_wgrad{
    .id = "layernorm_wgrad",
    .evaluate = wgrad<float>,
    .value = wgrad<double>,
    .truth = wgrad<BigFloat>,
    .tolerance = tolerance_by<wgrad<RunningError>, wgrad<ErrorMoments>, 0, 2>,
    .sums = SumOrder::chain,
    .schema = {.inputs = {{"x", "T", "D"}, {"w", "D", "1"}, {"dy", "T", "D"}},
               .outputs = {{"dw", "D", "1"}, {"db", "D", "1"}},
               .attributes = {real("eps")},
               .dealt = "T"},
    .examples = {.random = dealt, .shaped = shaped_norm_gradient, .usual = "4096x16"},
    .sums_as_asked = true,
    .forms = layernorm_gradient_forms,
};

}  // namespace plumb::bounds
