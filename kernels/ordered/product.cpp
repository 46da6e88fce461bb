#include "kernels/ordered/product.hpp"

#include <cmath>
#include <stdexcept>

#include "number/philox.hpp"

namespace plumb::kernels {
namespace {

class Steps {
 public:
  Steps(Rounding rounding, std::uint64_t key) : rounding_(rounding), key_(key) {}

  float multiply_add(float a, float b, float c) {
    if (rounding_ == Rounding::nearest_even) return std::fma(a, b, c);
    return rounded(std::fma(static_cast<double>(a), static_cast<double>(b), c));
  }
  float add(float a, float b) {
    if (rounding_ == Rounding::nearest_even) return a + b;
    return rounded(static_cast<double>(a) + static_cast<double>(b));
  }

 private:
  float rounded(double x) {
    const std::uint32_t word =
        rounding_ == Rounding::stochastic ? random_block(key_, count_++)[0] : 0;
    return static_cast<float>(round_to(x, fp32, {.how = rounding_, .word = word}));
  }

  Rounding rounding_;
  std::uint64_t key_, count_ = 0;
};

}  // namespace

Tensor ordered_product(View<float> a, View<float> b, const Order& order, std::uint64_t key) {
  if (a.cols != b.rows) throw std::invalid_argument("inner sizes differ");
  Tensor c(a.rows, b.cols);
  Steps steps(order.rounding, key);
  const auto add = [&](float x, float y) { return steps.add(x, y); };
  for (std::size_t i = 0; i < a.rows; ++i) {
    for (std::size_t j = 0; j < b.cols; ++j) {
      const auto step = [&](float sum, std::size_t k) {
        return steps.multiply_add(a(i, k), b(k, j), sum);
      };
      c(i, j) = total<float>(order, a.cols, step, add);
    }
  }
  return c;
}

}  // namespace plumb::kernels
