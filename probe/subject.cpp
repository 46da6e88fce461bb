#include "probe/subject.hpp"

#include <cmath>
#include <memory>

#include "kernels/mma/product.hpp"
#include "number/philox.hpp"
#include "number/rounding.hpp"
#include "probe/tables.hpp"

namespace plumb::probe {
namespace {

constexpr float smallest_normal = 0x1p-126F;

// Adds up an emulated FP32 sum.
class Adder {
 public:
  explicit Adder(const Emulated& device) : device_(device) {}

  float multiply_add(float a, float b, float c) {
    const double x = flushed(a), y = flushed(b);
    if (device_.fused) return rounded(x, y, c);
    return add(rounded(x, y, 0), c);
  }
  float add(float x, float y) { return rounded(x, 1, y); }

 private:
  float flushed(float x) const {
    return device_.flushes && std::fabs(x) < smallest_normal ? std::copysign(0.0F, x) : x;
  }
  // x y + c, rounded once.
  float rounded(double x, double y, float c) {
    const Rounding how = device_.order.rounding;
    if (how == Rounding::nearest_even) {
      return flushed(std::fma(static_cast<float>(x), static_cast<float>(y), c));
    }
    const std::uint32_t word =
        how == Rounding::stochastic ? random_block(device_.key, count_++)[0] : 0;
    const double sum = std::fma(x, y, static_cast<double>(c));
    return flushed(static_cast<float>(round_to(sum, fp32, {.how = how, .word = word})));
  }

  const Emulated& device_;
  std::uint64_t count_ = 0;
};

Tensor fp32_product(View<float> a, View<float> b, const Emulated& device) {
  Tensor c(a.rows, b.cols);
  Adder adder(device);
  const auto add = [&](float x, float y) { return adder.add(x, y); };
  for (std::size_t i = 0; i < a.rows; ++i) {
    for (std::size_t j = 0; j < b.cols; ++j) {
      const auto step = [&](float sum, std::size_t k) {
        return adder.multiply_add(a(i, k), b(k, j), sum);
      };
      c(i, j) = total<float>(device.order, a.cols, step, add);
    }
  }
  return c;
}

Tensor product_in_parts(View<float> a, View<float> b, const Mma& unit, const Order& parts) {
  const std::size_t n = a.cols;
  const bool split = parts.kind == Order::Kind::split;
  const std::size_t block = split ? (n + parts.block - 1) / parts.block : parts.block;
  Tensor c = mma_product(columns(a, 0, std::min(block, n)), rows(b, 0, std::min(block, n)), unit);
  for (std::size_t at = block; at < n; at += block) {
    const std::size_t last = std::min(at + block, n);
    const Tensor next = mma_product(columns(a, at, last), rows(b, at, last), unit);
    for (std::size_t e = 0; e < c.size(); ++e) c.values[e] += next.values[e];
  }
  return c;
}

bool all_finite(View<float> x) {
  for (std::size_t i = 0; i < x.rows; ++i) {
    for (std::size_t j = 0; j < x.cols; ++j) {
      if (!std::isfinite(x(i, j))) return false;
    }
  }
  return true;
}

}  // namespace

Tensor emulated_product(View<float> a, View<float> b, const Emulated& device) {
  if (!device.unit) return fp32_product(a, b, device);
  // Steps are known of numbers alone: whatever an infinity or a NaN goes into is FP32's.
  if (!all_finite(a) || !all_finite(b)) return fp32_product(a, b, {});
  if (!device.parts) return mma_product(a, b, *device.unit);
  return product_in_parts(a, b, *device.unit, *device.parts);
}

Subject subject_of(const Emulated& device, const Format& input) {
  // Random words go on from product to product, as a device's do.
  const auto multiply =
      [device, calls = std::make_shared<std::uint64_t>(0)](const std::vector<Operands>& asked) {
        std::vector<Tensor> all;
        for (const auto& [a, b] : asked) {
          Emulated now = device;
          now.key += ++*calls;
          all.push_back(emulated_product(view(a), view(b), now));
        }
        return all;
      };
  return {"emulated", input, multiply, 1};
}

Subject subject_of(const Backend& backend, const Format& input) {
  const auto multiply = [&backend](const std::vector<Operands>& asked) {
    std::vector<Tensor> all;
    for (const auto& [a, b] : asked) {
      Tensor c(a.rows, b.cols);
      backend.gemm(view(a), view(b), c.values.data(), c.cols, false);
      all.push_back(std::move(c));
    }
    return all;
  };
  Subject subject{std::string(backend.name), input, multiply};
  if (&backend == &find_backend("reference")) offer_kernels(subject);
  return subject;
}

}  // namespace plumb::probe
