#include "kernels/mma/product.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <stdexcept>

namespace plumb::kernels {
namespace {

constexpr int far_below = -4096;   // the exponent of zero: never the largest
constexpr std::size_t lanes = 16;  // columns of C at a time

// value = significand 2^(exponent - bits), the significand an integer with its sign; a subnormal
// number has the exponent of the smallest normal one.
struct Split {
  std::int32_t significand = 0;
  std::int32_t exponent = far_below;
};

Split split(float x, int bits, int emin) {
  if (x == 0) return {};
  const int exponent = std::max(std::ilogb(x), emin);
  return {static_cast<std::int32_t>(std::ldexp(x, bits - exponent)), exponent};
}

// Returns an integer scaled by 2^shift, cut toward zero.
std::int64_t scaled(std::int64_t x, int shift) {
  if (shift >= 0) return x << std::min(shift, 40);
  const int down = std::min(-shift, 62);
  return x >= 0 ? x >> down : -(-x >> down);
}

// Returns sum 2^unit_exponent as an FP32 number of `kept` fraction bits, cut toward zero.
float packed(std::int64_t sum, int unit_exponent, int kept) {
  if (sum == 0) return 0;
  const auto magnitude = static_cast<std::uint64_t>(sum < 0 ? -sum : sum);
  const int top = 63 - std::countl_zero(magnitude);
  const int drop = std::max(top - kept, 0);
  const double cut = std::ldexp(static_cast<double>(magnitude >> drop << drop), unit_exponent);
  return static_cast<float>(sum < 0 ? -cut : cut);
}

class Product {
 public:
  Product(View<float> a, View<float> b, const Mma& unit)
      : unit_(unit),
        bits_(unit.input.precision - 1),
        second_bits_(unit.second_input().precision - 1),
        k_(a.cols),
        c_(a.rows, b.cols),
        row_(a.cols),
        panel_(a.cols * lanes) {
    for (std::size_t j = 0; j < b.cols; j += lanes) {
      const std::size_t width = std::min(lanes, b.cols - j);
      for (std::size_t k = 0; k < k_; ++k) {
        for (std::size_t l = 0; l < lanes; ++l) {
          panel_[k * lanes + l] =
              l < width ? split(b(k, j + l), second_bits_, unit.second_input().emin) : Split{};
        }
      }
      for (std::size_t i = 0; i < a.rows; ++i) {
        for (std::size_t k = 0; k < k_; ++k) row_[k] = split(a(i, k), bits_, unit.input.emin);
        one_row(c_.row(i) + j, width);
      }
    }
  }
  Tensor take() { return std::move(c_); }

 private:
  void one_row(float* c, std::size_t width) {
    float sum[lanes] = {}, promoted[lanes] = {};
    const auto terms = static_cast<std::size_t>(unit_.terms);
    const auto chunk = static_cast<std::size_t>(unit_.promoted_after);
    for (std::size_t k = 0; k < k_; k += terms) {
      step(k, std::min(k + terms, k_), sum);
      if (chunk == 0 || (k + terms) % chunk != 0) continue;
      for (std::size_t l = 0; l < lanes; ++l) {
        promoted[l] += sum[l];
        sum[l] = 0;
      }
    }
    for (std::size_t l = 0; l < width; ++l) c[l] = promoted[l] + sum[l];
  }

  void step(std::size_t first, std::size_t last, float* sum) const {
    std::int32_t largest[lanes];
    Split before[lanes];
    for (std::size_t l = 0; l < lanes; ++l) {
      before[l] = split(sum[l], 23, -126);
      largest[l] = before[l].exponent;
    }
    for (std::size_t k = first; k < last; ++k) {
      const Split* b = &panel_[k * lanes];
      for (std::size_t l = 0; l < lanes; ++l) {
        largest[l] = std::max(largest[l], row_[k].exponent + b[l].exponent);
      }
    }
    std::int64_t total[lanes];
    for (std::size_t l = 0; l < lanes; ++l) {
      total[l] = scaled(before[l].significand, before[l].exponent - largest[l] + unit_.grid - 23);
    }
    for (std::size_t k = first; k < last; ++k) {
      const Split a = row_[k];
      const Split* b = &panel_[k * lanes];
      for (std::size_t l = 0; l < lanes; ++l) {
        const std::int64_t product = std::int64_t{a.significand} * b[l].significand;
        total[l] += scaled(
            product, a.exponent + b[l].exponent - largest[l] + unit_.grid - bits_ - second_bits_);
      }
    }
    for (std::size_t l = 0; l < lanes; ++l) {
      sum[l] = packed(total[l], largest[l] - unit_.grid, unit_.kept);
    }
  }

  const Mma unit_;
  const int bits_, second_bits_;  // of a fraction
  const std::size_t k_;
  Tensor c_;
  std::vector<Split> row_, panel_;
};

}  // namespace

Tensor mma_product(View<float> a, View<float> b, const Mma& unit) {
  if (a.cols != b.rows) throw std::invalid_argument("inner sizes differ");
  unit.check();
  return Product(a, b, unit).take();
}

}  // namespace plumb::kernels
