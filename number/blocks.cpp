#include "number/blocks.hpp"

#include <cmath>
#include <limits>

#include "number/rounding.hpp"

namespace plumb {
namespace {

struct Block {
  std::size_t row, col, rows, cols;
};

template <class F>
void for_each(const Block& b, const F& f) {
  for (std::size_t i = b.row; i < b.row + b.rows; ++i) {
    for (std::size_t j = b.col; j < b.col + b.cols; ++j) f(i, j);
  }
}

double amax(const Tensor& x, const Block& block) {
  double largest = 0;
  for_each(block, [&](std::size_t i, std::size_t j) {
    const double size = std::fabs(static_cast<double>(x(i, j)));
    if (std::isfinite(size) && size > largest) largest = size;
  });
  return largest;
}

double normal_fp32(double scale) { return std::max(round_to(scale, fp32), 0x1p-126); }

constexpr float most_fp32 = std::numeric_limits<float>::max();

// By what a tensor is multiplied, so that its largest magnitude is that of a block in E4M3.
float encoding(double tensor_amax, const Format& element) {
  if (tensor_amax == 0) return 1;
  const auto most = static_cast<float>(e4m3fn.largest() * element.largest());
  return std::min(most / static_cast<float>(tensor_amax), most_fp32);
}

// amax / largest, rounded up to a power of two.
double ceil_scale(double size, const Format& element) {
  int exponent = 0;
  const double fraction = std::frexp(size / element.largest(), &exponent);  // in [1/2, 1)
  return std::ldexp(1.0, fraction == 0.5 ? exponent - 1 : exponent);
}

}  // namespace

double block_scale(double size, ScaleRule rule, const Format& element, double tensor_amax) {
  if (rule == ScaleRule::nested_reciprocal) {
    const float inverse = 1 / static_cast<float>(element.largest());
    const float sought = static_cast<float>(size) * (encoding(tensor_amax, element) * inverse);
    const float steps = round_to(std::min(sought, most_fp32), e4m3fn, {.saturate = true});
    return static_cast<double>(steps *
                               static_cast<float>(nested_scale(tensor_amax, rule, element)));
  }
  if (size == 0) return 1;
  const auto within = [](double scale) { return round_to(scale, e8m0, {.saturate = true}); };
  switch (rule) {
    case ScaleRule::floor:
      return within(std::ldexp(1.0, std::ilogb(size) - element.emax));
    case ScaleRule::ceil:
      return within(ceil_scale(size, element));
    case ScaleRule::even: {
      const double unit = std::ldexp(1.0, std::ilogb(size) - element.precision + 1);
      const double rounded = std::nearbyint(size / unit) * unit;
      return within(std::ldexp(1.0, std::ilogb(rounded) - element.emax));
    }
    case ScaleRule::exact:
      return normal_fp32(size / element.largest());
    default:
      break;
  }
  const double tensor_scale = nested_scale(tensor_amax, rule, element);
  const double steps =
      round_to(size / element.largest() / tensor_scale, e4m3fn, {.saturate = true});
  return normal_fp32((steps == 0 ? e4m3fn.spacing_at_zero() : steps) * tensor_scale);
}

double nested_scale(double size, ScaleRule rule, const Format& element) {
  if (rule == ScaleRule::nested_reciprocal) {
    return static_cast<double>(1 / encoding(size, element));
  }
  return size == 0 ? 1 : normal_fp32(size / (element.largest() * e4m3fn.largest()));
}

float in_scale(float x, float scale, ScaleRule rule) {
  if (rule != ScaleRule::nested_reciprocal) return x / scale;
  return x * std::min(1 / scale, most_fp32);
}

std::vector<std::size_t> block_starts(std::size_t n, std::size_t size, int parts) {
  std::vector<std::size_t> starts;
  for (int p = 0; p < parts; ++p) {
    const std::size_t k = static_cast<std::size_t>(p), all = static_cast<std::size_t>(parts);
    for (std::size_t i = k * n / all; i < (k + 1) * n / all; i += size) starts.push_back(i);
  }
  starts.push_back(n);
  return starts;
}

const BlockFormat* find_block_format(std::string_view name) {
  for (const BlockFormat& format : block_formats) {
    if (format.name == name) return &format;
  }
  return nullptr;
}

Quantised quantise(const Tensor& x, const BlockFormat& to) {
  const std::size_t rows = to.rows == 0 ? std::max<std::size_t>(x.rows, 1) : to.rows;
  const std::size_t cols = to.cols == 0 ? std::max<std::size_t>(x.cols, 1) : to.cols;
  Quantised result{x, Tensor((x.rows + rows - 1) / rows, (x.cols + cols - 1) / cols), 0};
  const double tensor_amax = is_nested(to.rule) ? amax(x, {0, 0, x.rows, x.cols}) : 0;
  for (std::size_t r = 0; r < result.scales.rows; ++r) {
    for (std::size_t c = 0; c < result.scales.cols; ++c) {
      const Block block{r * rows, c * cols, std::min(rows, x.rows - r * rows),
                        std::min(cols, x.cols - c * cols)};
      const double scale = block_scale(amax(x, block), to.rule, to.element, tensor_amax);
      result.scales(r, c) = static_cast<float>(scale);
      for_each(block, [&](std::size_t i, std::size_t j) {
        if (!std::isfinite(x(i, j))) return;
        const double element = to.rule == ScaleRule::nested_reciprocal
                                   ? in_scale(x(i, j), static_cast<float>(scale), to.rule)
                                   : x(i, j) / scale;
        const double rounded = round_to(element, to.element, {.saturate = true});
        const double beyond = std::fabs(element) - to.element.largest();
        result.saturated += beyond > ulp(to.element.largest(), to.element) / 2 ? 1 : 0;
        result.values(i, j) = static_cast<float>(rounded * scale);
      });
    }
  }
  return result;
}

}  // namespace plumb
