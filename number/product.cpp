#include "number/product.hpp"

#include <cmath>

#include "number/tiles.hpp"

namespace plumb {

Matrix<float> product_of_sizes(View<double> a, View<double> b) {
  const auto sizes = [](const View<double>& x) {
    Matrix<float> all(x.rows, x.cols, to_be_written);
    for (std::size_t i = 0; i < x.rows; ++i) {
      for (std::size_t k = 0; k < x.cols; ++k) all(i, k) = static_cast<float>(std::fabs(x(i, k)));
    }
    return all;
  };
  const Matrix<float> of_a = sizes(a), of_b = sizes(b);
  return product(view(of_a), view(of_b));
}

template void multiply(View<double>, View<double>, double*, std::size_t, bool);

}  // namespace plumb
