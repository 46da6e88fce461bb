// layernorm: y = (x - mu) r w + b,  mu = sum x / D,  r = 1 / sqrt(sum (x - mu)^2 / D + eps)
//
//   inputs   x (T, D), w (D, 1), b (D, 1)        y (T, D)
//   attributes   eps; one_pass (default 0): the variance as mean of squares less square of mean, as
//                some kernels take it; its bound grows with (mu / sigma)^2, and so do its errors
//   evaluate   two passes: a chain of additions for mu, a chain of fused multiply-adds for the
//              squares; then each step rounded to FP32; one rounding to the output format
// Also here: layernorm_grad (dx) and layernorm_wgrad (dw, db).
//   dx = r (g - mean(g) - xhat mean(g xhat)),  g = dy w,  xhat = (x - mu) r      inputs x, w, dy
//   dw_j = sum_t dy_tj xhat_tj,  db_j = sum_t dy_tj, tokens in `parts` slices    inputs x, w, dy
#include <cmath>

#include "bounds/number/rows.hpp"
#include "bounds/operations/column_sums.hpp"
#include "bounds/tolerance.hpp"

namespace plumb {
namespace {

template <class T>
struct Moments {
  T mean, inverse_deviation;
};

// The variance from sums of x and x^2.
template <class T>
Moments<T> one_pass(const T* x, std::size_t n, double eps) {
  using std::fma;
  using std::sqrt;
  T sum = 0;
  T squares = 0;
  for (std::size_t j = 0; j < n; ++j) {
    sum += x[j];
    squares = fma(x[j], x[j], squares);
  }
  const T mean = shared(sum / static_cast<T>(n));
  const T variance = squares / static_cast<T>(n) - mean * mean;
  return {mean, shared(T(1) / sqrt(variance + static_cast<T>(eps)))};
}

template <class T>
Moments<T> moments(const T* x, std::size_t n, double eps) {
  using std::sqrt;
  const T mean = shared(sum_of(x, n) / static_cast<T>(n));
  const T squares = squares_of(x, n, mean);
  return {mean, shared(T(1) / sqrt(squares / static_cast<T>(n) + static_cast<T>(eps)))};
}

template <class T>
std::vector<Matrix<T>> forward(const Call<T>& call) {
  const Matrix<T>& x = call[0];
  const std::vector<T>& w = call[1].values;
  const std::vector<T>& b = call[2].values;
  const auto moments_of = call.attribute("one_pass", 0) != 0 ? one_pass<T> : moments<T>;
  Matrix<T> y(x.rows, x.cols);
  for (std::size_t t = 0; t < x.rows; ++t) {
    const auto [mean, r] = moments_of(x.row(t), x.cols, call.attribute("eps"));
    for (std::size_t j = 0; j < x.cols; ++j) y(t, j) = (x(t, j) - mean) * r * w[j] + b[j];
  }
  call.roundings.round(y, call.how.output);
  return alone(std::move(y));
}

template <class T>
std::vector<Matrix<T>> grad(const Call<T>& call) {
  using std::fma;
  const Matrix<T>& x = call[0];
  const std::vector<T>& w = call[1].values;
  const Matrix<T>& dy = call[2];
  const auto n = static_cast<T>(x.cols);
  Matrix<T> dx(x.rows, x.cols);
  for (std::size_t t = 0; t < x.rows; ++t) {
    const auto [mean, r] = moments(x.row(t), x.cols, call.attribute("eps"));
    T sum = 0;
    T along = 0;
    for (std::size_t j = 0; j < x.cols; ++j) {
      const T g = dy(t, j) * w[j];
      sum += g;
      along = fma(g, (x(t, j) - mean) * r, along);
    }
    sum = shared(sum / n);
    along = shared(along / n);
    for (std::size_t j = 0; j < x.cols; ++j) {
      dx(t, j) = r * (dy(t, j) * w[j] - sum - (x(t, j) - mean) * r * along);
    }
  }
  call.roundings.round(dx, call.how.output);
  return {std::move(dx)};
}

template <class T>
std::vector<Matrix<T>> wgrad(const Call<T>& call) {
  const Matrix<T>& x = call[0];
  Matrix<T> products = call[2];
  for (std::size_t t = 0; t < x.rows; ++t) {
    const auto [mean, r] = moments(x.row(t), x.cols, call.attribute("eps"));
    for (std::size_t j = 0; j < x.cols; ++j) products(t, j) *= (x(t, j) - mean) * r;
  }
  Matrix<T> dw = column_sums(products, call.how, call.roundings);
  return {std::move(dw), column_sums(call[2], call.how, call.roundings)};
}

}  // namespace

extern const Operation layernorm{"layernorm", forward<float>, forward<double>, forward<Truth>,
                                 tolerance_by<forward<Near>, forward<Moment>, 0>};
extern const Operation layernorm_grad{"layernorm_grad", grad<float>, grad<double>, grad<Truth>,
                                      tolerance_by<grad<Near>, grad<Moment>, 0, 2>};
extern const Operation layernorm_wgrad{"layernorm_wgrad", wgrad<float>, wgrad<double>, wgrad<Truth>,
                                       tolerance_by<wgrad<Near>, wgrad<Moment>, 0, 2>};

}  // namespace plumb
