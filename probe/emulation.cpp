#include "probe/emulation.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "bounds/examples/draw.hpp"

namespace plumb::probe {
namespace {

// Two NaN are equal, whatever their code; zeros are, whatever their sign.
bool equal_bits(float x, float y) { return x == y || (std::isnan(x) && std::isnan(y)); }

// Products that fall around the edges of what FP32 holds, where the format reaches them.
Operands tiny(std::size_t m, std::size_t k, std::size_t n, const Format& input, Draw& draw) {
  Operands x{Tensor(m, k), Tensor(k, n)};
  const int least = std::max(input.emin - input.precision + 1, -149);
  for (Tensor* t : {&x.a, &x.b}) {
    for (float& v : t->values) {
      const int exponent = t == &x.a ? least + static_cast<int>(draw.between(0, 40))
                                     : static_cast<int>(draw.between(0, 30)) - 20;
      const double y = std::ldexp(draw.normal(), std::min(exponent, input.emax - 3));
      v = static_cast<float>(round_to(y, input));
    }
  }
  return x;
}

Operands drawn(std::string_view kind, std::size_t m, std::size_t k, std::size_t n,
               const Format& input, unsigned seed) {
  Draw draw(kind, seed);
  if (kind == "tiny") return tiny(m, k, n, input, draw);
  const auto matrix = [&](std::size_t rows, std::size_t cols) {
    Matrix<double> x = draw.matrix(rows, cols);
    for (double& v : x.values) {
      v = std::clamp(v, -input.largest() / 2, input.largest() / 2);
      v = round_to(v, input);
    }
    return converted<float>(x);
  };
  return {matrix(m, k), matrix(k, n)};
}

}  // namespace

std::vector<Sample> samples_of(const Subject& subject, const Samples& which) {
  static constexpr std::array kinds{"plain", "spread", "cancelling", "positive", "powers"};
  const auto kind_of = [&](std::size_t i) { return which.tiny ? "tiny" : kinds[i / 2]; };
  Draw draw("plain", which.seed);
  std::vector<Operands> asked;
  for (std::size_t i = 0; i < 2 * kinds.size(); ++i) {
    std::size_t m = draw.between(1, which.largest), n = draw.between(1, which.largest);
    if (i == 0 && which.wide > 0) m = n = which.wide;
    const std::size_t shortest = std::min<std::size_t>(which.terms, 2);
    const std::size_t k = i % 2 == 0 ? which.terms : draw.between(shortest, which.terms);
    asked.push_back(
        drawn(kind_of(i), m, k, n, subject.input, which.seed * 64 + static_cast<unsigned>(i)));
  }
  std::vector<Tensor> found = subject.multiply(asked);
  std::vector<Sample> samples;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    samples.push_back({std::move(asked[i]), std::move(found[i]), kind_of(i)});
  }
  return samples;
}

bool same_numbers(const Tensor& x, const Tensor& y) {
  return std::ranges::equal(x.values, y.values, equal_bits);
}

Operands without_first(const Operands& whole) {
  const std::size_t rows = whole.a.rows / 2, cols = whole.b.cols / 2, k = whole.a.cols;
  Operands part{Tensor(whole.a.rows - rows, k), Tensor(k, whole.b.cols - cols)};
  for (std::size_t i = 0; i < part.a.rows; ++i)
    std::copy_n(whole.a.row(i + rows), k, part.a.row(i));
  for (std::size_t i = 0; i < k; ++i)
    std::copy_n(whole.b.row(i) + cols, part.b.cols, part.b.row(i));
  return part;
}

std::vector<Emulated> left_of(const std::vector<Emulated>& candidates,
                              const std::vector<Sample>& samples) {
  std::vector<Emulated> left = candidates;
  for (const Sample& sample : samples) {
    std::erase_if(left, [&](const Emulated& device) {
      // A row first: most candidates differ there.
      const View<float> a = view(sample.operands.a), b = view(sample.operands.b);
      const View<float> row{a.data, 1, a.cols, a.stride};
      const Tensor some = emulated_product(row, b, device);
      if (!std::equal(some.values.begin(), some.values.end(), sample.found.values.begin(),
                      equal_bits)) {
        return true;
      }
      const Tensor made = emulated_product(a, b, device);
      return !std::ranges::equal(made.values, sample.found.values, equal_bits);
    });
  }
  return left;
}

std::vector<Rounding> roundings_left(const std::vector<Emulated>& candidates,
                                     const std::vector<Sample>& samples) {
  std::vector<Rounding> left;
  for (const Rounding how : {Rounding::nearest_even, Rounding::toward_zero, Rounding::away}) {
    const bool all = std::ranges::all_of(samples, [&](const Sample& sample) {
      std::vector<Tensor> made;
      for (const Emulated& device : candidates) {
        if (device.order.rounding != how) continue;
        const auto& [a, b] = sample.operands;
        made.push_back(emulated_product(view(a), view(b), device));
      }
      for (std::size_t e = 0; e < sample.found.size(); ++e) {
        const auto same = [&](const Tensor& c) {
          return equal_bits(c.values[e], sample.found.values[e]);
        };
        if (std::ranges::none_of(made, same)) return false;
      }
      return true;
    });
    if (all) left.push_back(how);
  }
  return left;
}

std::vector<Emulated> candidates_in(const std::vector<Order>& orders) {
  std::vector<Emulated> all;
  for (Order order : orders) {
    for (const Rounding how : {Rounding::nearest_even, Rounding::toward_zero, Rounding::away}) {
      order.rounding = how;
      for (const bool fused : {true, false}) {
        all.push_back({.order = order, .fused = fused});
      }
    }
  }
  return all;
}

std::vector<Emulated> candidates_in(const Steps& steps, const Format& input) {
  std::vector<Emulated> all;
  for (int grid = 1; grid <= 40; ++grid) {
    for (int kept = 1; kept <= 23; ++kept) {
      Mma unit{input, steps.terms, grid, kept, steps.promoted_after};
      all.push_back({.unit = unit, .parts = steps.parts});
    }
  }
  return all;
}

std::optional<Emulated> emulated_by(const Machine& card, const Format& input) {
  if (const auto unit = card.mma(input)) return Emulated{.unit = unit};
  const auto order = card.product_order(1);
  if (!order) return {};
  const Arithmetic arithmetic = card.arithmetic();
  return Emulated{.order = *order, .fused = arithmetic.fuses, .flushes = arithmetic.flushes};
}

double share_equal(const Emulated& device, const std::vector<Sample>& samples) {
  std::size_t equal = 0, all = 0;
  for (const auto& [operands, found, kind] : samples) {
    if (!device.order.knows(operands.a.cols)) continue;
    const Tensor made = emulated_product(view(operands.a), view(operands.b), device);
    for (std::size_t e = 0; e < made.size(); ++e) {
      equal += equal_bits(made.values[e], found.values[e]) ? 1 : 0;
    }
    all += made.size();
  }
  return all == 0 ? 0 : static_cast<double>(equal) / static_cast<double>(all);
}

}  // namespace plumb::probe
