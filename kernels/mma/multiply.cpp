#include "kernels/mma/multiply.hpp"

#include <cmath>

#include "kernels/mma/product.hpp"
#include "number/rounding.hpp"

namespace plumb::kernels {
namespace {

// The unit is described for finite numbers alone: infinities and NaN are multiplied in FP32.
bool are_bf16(const View<float>& x) {
  for (std::size_t i = 0; i < x.rows; ++i) {
    for (std::size_t j = 0; j < x.cols; ++j) {
      if (!std::isfinite(x(i, j)) || round_to(x(i, j), bf16) != x(i, j)) return false;
    }
  }
  return true;
}

}  // namespace

std::optional<Tensor> product_of_bf16(View<float> a, View<float> b, const Mma& unit) {
  if (!are_bf16(a) || !are_bf16(b)) return {};
  return mma_product(a, b, unit);
}

}  // namespace plumb::kernels
