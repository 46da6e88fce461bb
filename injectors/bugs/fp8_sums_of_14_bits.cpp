#include <bit>
#include <cmath>

#include "injectors/bug.hpp"
#include "model/joints/layers.hpp"

namespace plumb::injectors {
namespace {

// Keeps a sum as FP8 matrix units without promotion do: 14 significant bits, cut toward zero.
float cut(float x) { return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0xfffffc00U); }

void short_product(const View<float>& x, const View<float>& w, Tensor& y) {
  for (std::size_t i = 0; i < y.rows; ++i) {
    for (std::size_t j = 0; j < y.cols; ++j) {
      float sum = 0;
      for (std::size_t k = 0; k < x.cols; ++k) sum = cut(std::fma(x(i, k), w(k, j), sum));
      y(i, j) = sum;
    }
  }
}

std::string bitten(const Config& config) {
  return config.experts > 0 ? "layers.1.mlp.experts.fc1" : "layers.1.mlp.fc1";
}

}  // namespace

extern const Bug fp8_sums_of_14_bits{
    .id = "fp8-sums-of-14-bits",
    .title = "One FP8 product is accumulated in 14 bits instead of FP32",
    .kind = BugKind::precision,
    .story =
        "The matrix unit keeps 14 bits of the running sum of FP8 products, and nothing moves it to "
        "an FP32 accumulator in between. Each addition cuts toward zero, so the output shrinks by "
        "some tenths of a percent: less than FP8's own rounding, and all one way.",
    .seen_in = "DeepSeek-V3's report on Hopper; DeepGEMM promotes every 128 terms",
    .needs = {.layout = "tp2", .recipe = "fp8-current"},
    .hides_when = "recipes without FP8 operands, or short sums",
    .bites_at = [](const Config& config) { return "m0/" + bitten(config) + "/out"; },
    .plant =
        [](Joints& joints, const Dose&, const Config& config) {
          joints.linear.after_product.replace(
              [module = bitten(config)](const Where& where, const View<float>& x,
                                        const View<float>& w, Tensor& y) {
                if (where.module == module) short_product(x, w, y);
              });
        },
};

}  // namespace plumb::injectors
