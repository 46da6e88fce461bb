// layernorm_grad: dx = r (g - mean(g) - xhat mean(g xhat)),  g = dy w,  xhat = (x - mu) r
//
//   inputs       x (T, D), w (D, 1), dy (T, D)       dx (T, D)
//   attributes   eps
//   evaluate     mu and r in two passes, as layernorm.cpp says; sums are chains; each step rounded to
//                FP32; one rounding to the output format
//   forms        layernorm_gradients.hpp; folded: dx = r g + b x + c,
//                b = (mu sum g - sum g x) r^3 / D,  c = -b mu - r sum g / D
// SOURCES  theory.md N3, D7
#include "bounds/operations/layernorm_gradients.hpp"
#include "bounds/tolerance.hpp"

namespace plumb::bounds {
namespace {

// The sums of a row, over g = dy w.
template <class T>
struct RowSums {
  T g, along, with_x;  // of g, of g xhat, of g x
};
template <class T>
RowSums<T> sums_of(const Call<T>& call, std::size_t t, const Moments<T>& m) {
  const Matrix<T>&x = call[0], &w = call[1], &dy = call[2];
  Sum<T> all(call.sums), along(call.sums), with_x(call.sums);
  for (std::size_t j = 0; j < x.cols; ++j) {
    const T g = dy(t, j) * w.values[j];
    all.add(g);
    along.add_product(g, (x(t, j) - m.mean) * m.inverse_deviation);
    if (folds(call.form)) with_x.add_product(g, x(t, j));
  }
  return {all.total(), along.total(), folds(call.form) ? with_x.total() : T(0)};
}

template <class T>
std::vector<Matrix<T>> grad(const Call<T>& call) {
  const Matrix<T>&x = call[0], &w = call[1], &dy = call[2];
  const auto n = static_cast<T>(x.cols);
  Matrix<T> dx(x.rows, x.cols);
  for (std::size_t t = 0; t < x.rows; ++t) {
    const Moments<T> m = moments_in(call, t);
    const auto& [mean, r] = m;
    const RowSums<T> sums = sums_of(call, t, m);
    const T mean_g = with_named_error(sums.g / n), along = with_named_error(sums.along / n);
    T slope = 0, offset = 0;
    if (folds(call.form)) {
      slope = (sums.g * mean - sums.with_x) * r * r * r / n;
      offset = T(0) - slope * mean - sums.g * r / n;
    }
    for (std::size_t j = 0; j < x.cols; ++j) {
      const T g = dy(t, j) * w.values[j];
      const T plain = r * (g - mean_g - (x(t, j) - mean) * r * along);
      dx(t, j) =
          folds(call.form) ? of_either(true, plain, r * g + slope * x(t, j) + offset) : plain;
    }
  }
  call.roundings.round(dx, call.how.output);
  return as_outputs(std::move(dx));
}

void one_part(RandomCall& c) {
  random_norm_gradient(c);
  c.one_part();
}

}  // namespace

extern const Operation layernorm_grad{
    .id = "layernorm_grad",
    .evaluate = grad<float>,
    .value = grad<double>,
    .truth = grad<BigFloat>,
    .tolerance = tolerance_by<grad<RunningError>, grad<ErrorMoments>, 0, 2>,
    .sums = SumOrder::chain,
    .schema = {.inputs = {{"x", "T", "D"}, {"w", "D", "1"}, {"dy", "T", "D"}},
               .outputs = {{"dx", "T", "D"}},
               .attributes = {real("eps")}},
    .examples = {.random = one_part, .shaped = shaped_norm_gradient},
    .sums_as_asked = true,
    .forms = layernorm_gradient_forms,
};
}  // namespace plumb::bounds
