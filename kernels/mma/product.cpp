#include "kernels/mma/product.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>

#include "kernels/mma/amd.hpp"
#include "kernels/mma/split.hpp"

namespace plumb::kernels {
namespace {

constexpr std::size_t lanes = 16;  // columns of C at a time

// Returns an integer scaled by 2^shift, cut toward zero.
std::int64_t scaled(std::int64_t x, int shift) {
  if (shift >= 0) return x << std::min(shift, 40);
  const int down = std::min(-shift, 62);
  return x >= 0 ? x >> down : -(-x >> down);
}

// Returns sum 2^unit_exponent in the unit's accumulator, with its kept bits.
float packed(std::int64_t sum, int unit_exponent, const Mma& unit) {
  const auto magnitude = static_cast<std::uint64_t>(sum < 0 ? -sum : sum);
  if (magnitude == 0) return 0;
  const int top = std::max(63 - std::countl_zero(magnitude) + unit_exponent, unit.sum.emin);
  const int drop = std::clamp(top - unit.kept - unit_exponent, 0, 62);
  std::uint64_t units = magnitude >> drop;
  if (unit.nearest && drop > 0) {
    const std::uint64_t half = std::uint64_t{1} << (drop - 1), rest = magnitude - (units << drop);
    units += rest > half || (rest == half && units % 2 == 1) ? 1 : 0;
  }
  if (units == 0) return 0;
  const double x = std::ldexp(static_cast<double>(units), unit_exponent + drop);
  const double held = x > unit.sum.largest() ? std::numeric_limits<double>::infinity() : x;
  return static_cast<float>(sum < 0 ? -held : held);
}

class Sums {
 public:
  Sums(View<float> a, View<float> b, const UnitScales* scales, const Mma& unit)
      : unit_(unit),
        bits_(unit.input.precision - 1),
        second_bits_(unit.second_input().precision - 1),
        k_(a.cols),
        c_(a.rows, b.cols),
        row_(a.cols),
        panel_(a.cols * lanes) {
    const auto block = static_cast<std::size_t>(std::max(unit.block, 1));
    const auto scaled = [&](Split x, const View<float>* by, std::size_t i, std::size_t j) {
      if (by != nullptr && x.significand != 0) x.exponent += std::ilogb((*by)(i, j));
      return x;
    };
    const View<float>* of_a = scales != nullptr ? &scales->a : nullptr;
    const View<float>* of_b = scales != nullptr ? &scales->b : nullptr;
    for (std::size_t j = 0; j < b.cols; j += lanes) {
      const std::size_t width = std::min(lanes, b.cols - j);
      for (std::size_t k = 0; k < k_; ++k) {
        for (std::size_t l = 0; l < lanes; ++l) {
          panel_[k * lanes + l] = {};
          if (l >= width) continue;
          const Split x = split(b(k, j + l), second_bits_, unit.second_input().emin);
          panel_[k * lanes + l] = scaled(x, of_b, k / block, j + l);
        }
      }
      for (std::size_t i = 0; i < a.rows; ++i) {
        for (std::size_t k = 0; k < k_; ++k) {
          row_[k] = scaled(split(a(i, k), bits_, unit.input.emin), of_a, i, k / block);
        }
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
      const std::size_t last = std::min(k + terms, k_);
      if (unit_.kind == Mma::Kind::aligned) {
        step(k, last, sum);
      } else {
        for (std::size_t l = 0; l < width; ++l) sum[l] = step_alone(k, last, l, sum[l]);
      }
      if (chunk == 0 || (k + terms) % chunk != 0) continue;
      for (std::size_t l = 0; l < lanes; ++l) {
        promoted[l] += sum[l];
        sum[l] = 0;
      }
    }
    for (std::size_t l = 0; l < width; ++l) c[l] = promoted[l] + sum[l];
  }

  // Of a unit that is not aligned, one lane at a time.
  float step_alone(std::size_t first, std::size_t last, std::size_t lane, float c) const {
    if (!std::isfinite(c) && unit_.kind != Mma::Kind::paired) return c;
    std::array<Product, Mma::most_terms> products{};
    const auto of_subnormal = [](const Split& x, int bits) {
      return std::abs(x.significand) < std::int32_t{1} << bits;
    };
    for (std::size_t k = first; k < last; ++k) {
      const Split a = row_[k], b = panel_[k * lanes + lane];
      products[k - first] = {std::int64_t{a.significand} * b.significand, a.exponent + b.exponent,
                             of_subnormal(a, bits_) || of_subnormal(b, second_bits_)};
    }
    return amd_step(unit_, c, {products.data(), last - first}, bits_ + second_bits_);
  }

  void step(std::size_t first, std::size_t last, float* sum) const {
    const int bits_of_sum = unit_.sum.precision - 1;
    std::int32_t largest[lanes];
    Split before[lanes];
    for (std::size_t l = 0; l < lanes; ++l) {
      const bool over = !std::isfinite(sum[l]);  // and stays so
      before[l] = over ? Split{} : split(sum[l], bits_of_sum, unit_.sum.emin);
      largest[l] = std::max(before[l].exponent, unit_.zero.value_or(far_below));
    }
    for (std::size_t k = first; k < last; ++k) {
      const Split* b = &panel_[k * lanes];
      for (std::size_t l = 0; l < lanes; ++l) {
        largest[l] = std::max(largest[l], row_[k].exponent + b[l].exponent);
      }
    }
    std::int64_t total[lanes];
    for (std::size_t l = 0; l < lanes; ++l) {
      total[l] =
          scaled(before[l].significand, before[l].exponent - largest[l] + unit_.grid - bits_of_sum);
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
      if (std::isfinite(sum[l])) sum[l] = packed(total[l], largest[l] - unit_.grid, unit_);
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
  if (unit.any_steps) throw std::invalid_argument("of any arrangement there is no one result");
  unit.check();
  return Sums(a, b, nullptr, unit).take();
}

Tensor mma_product(View<float> a, View<float> b, const UnitScales& scales, const Mma& unit) {
  if (a.cols != b.rows) throw std::invalid_argument("inner sizes differ");
  if (unit.block < 1) throw std::invalid_argument("the unit scales no blocks");
  if (unit.any_steps) throw std::invalid_argument("of any arrangement there is no one result");
  unit.check();
  return Sums(a, b, &scales, unit).take();
}

}  // namespace plumb::kernels
