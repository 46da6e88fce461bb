#include "experiments/emulated.hpp"

#include <optional>

#include "probe/machine_products.hpp"

namespace plumb::experiments {
namespace {

void gemm_of_h100(View<float> a, View<float> b, float* c, std::size_t c_stride, bool accumulate) {
  static const Multiply on_unit = products_on(*find_machine("h100")).value();
  const std::optional<Tensor> made = on_unit(a, b);
  if (!made) return find_backend("reference").gemm(a, b, c, c_stride, accumulate);
  const Tensor& product = *made;
  for (std::size_t i = 0; i < a.rows; ++i) {
    for (std::size_t j = 0; j < b.cols; ++j) {
      float& to = c[i * c_stride + j];
      to = accumulate ? to + product(i, j) : product(i, j);
    }
  }
}

}  // namespace

const Backend& emulated_h100() {
  static const Backend emulated{"h100", "an H100's products, emulated", false, [] { return true; },
                                gemm_of_h100};
  return emulated;
}

}  // namespace plumb::experiments
