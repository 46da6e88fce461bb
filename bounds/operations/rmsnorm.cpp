// rmsnorm: y = x r w,  r = 1 / sqrt(sum_j x_j^2 / D + eps)
//
//   inputs   x (T, D), w (D, 1)        y (T, D)
//   attributes   eps
//   evaluate   the sum is a chain of fused multiply-adds; then sqrt, division, (x r) w, each
//   rounded
//              to FP32; one rounding to the output format
// Also here: rmsnorm_grad (dx) and rmsnorm_wgrad (dw).
//   dx = r (dy w - xhat c),  c = sum_j dy_j w_j xhat_j / D,  xhat = x r          inputs x, w, dy
//   dw_j = sum_t dy_tj xhat_tj, tokens in `parts` slices                         inputs x, w, dy
#include <cmath>

#include "bounds/operations/column_sums.hpp"
#include "bounds/tolerance.hpp"

namespace plumb {
namespace {

template <class T>
T inverse_rms(const T* x, std::size_t n, double eps) {
  using std::fma;
  using std::sqrt;
  T squares = 0;
  for (std::size_t j = 0; j < n; ++j) squares = fma(x[j], x[j], squares);
  return shared(T(1) / sqrt(squares / static_cast<T>(n) + static_cast<T>(eps)));
}

template <class T>
std::vector<Matrix<T>> forward(const Call<T>& call) {
  const Matrix<T>& x = call[0];
  const std::vector<T>& w = call[1].values;
  Matrix<T> y(x.rows, x.cols);
  for (std::size_t t = 0; t < x.rows; ++t) {
    const T r = inverse_rms(x.row(t), x.cols, call.attribute("eps"));
    for (std::size_t j = 0; j < x.cols; ++j) y(t, j) = x(t, j) * r * w[j];
  }
  call.roundings.round(y, call.how.output);
  return {std::move(y)};
}

template <class T>
std::vector<Matrix<T>> grad(const Call<T>& call) {
  using std::fma;
  const Matrix<T>& x = call[0];
  const std::vector<T>& w = call[1].values;
  const Matrix<T>& dy = call[2];
  Matrix<T> dx(x.rows, x.cols);
  for (std::size_t t = 0; t < x.rows; ++t) {
    const T r = inverse_rms(x.row(t), x.cols, call.attribute("eps"));
    T c = 0;
    for (std::size_t j = 0; j < x.cols; ++j) c = fma(dy(t, j) * w[j], x(t, j) * r, c);
    c = shared(c / static_cast<T>(x.cols));
    for (std::size_t j = 0; j < x.cols; ++j) {
      dx(t, j) = r * (dy(t, j) * w[j] - x(t, j) * r * c);
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
    const T r = inverse_rms(x.row(t), x.cols, call.attribute("eps"));
    for (std::size_t j = 0; j < x.cols; ++j) products(t, j) *= x(t, j) * r;
  }
  return {column_sums(products, call.how, call.roundings)};
}

}  // namespace

extern const Operation rmsnorm{"rmsnorm", forward<float>, forward<double>, forward<Truth>,
                               tolerance_of_squares_by<forward<Near>, forward<Moment>, 0>};
extern const Operation rmsnorm_grad{"rmsnorm_grad", grad<float>, grad<double>, grad<Truth>,
                                    tolerance_of_squares_by<grad<Near>, grad<Moment>, 0, 2>};
extern const Operation rmsnorm_wgrad{"rmsnorm_wgrad", wgrad<float>, wgrad<double>, wgrad<Truth>,
                                     tolerance_of_squares_by<wgrad<Near>, wgrad<Moment>, 0, 2>};

}  // namespace plumb
