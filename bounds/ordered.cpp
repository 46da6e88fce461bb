#include "bounds/ordered.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "bounds/proof/arithmetic.hpp"
#include "bounds/proof/grid.hpp"
#include "bounds/proof/term.hpp"
#include "number/format.hpp"

namespace plumb::bounds {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// A partial sum: its exact value, and the errors of what FP32 holds in its place.
struct Partial {
  double sum = 0, grid = infinity;
  double worst = 0, energy = 0, drift = 0, bias = 0, variance = 0;
  bool held = true;   // by FP32; a product is not
  bool lost = false;  // something may have been flushed on the way
};

class Walk {
 public:
  explicit Walk(Rounding rounding) : rounding_(rounding) {}

  Partial add(const Partial& x, const Partial& y) const {
    Partial z;
    z.sum = x.sum + y.sum;
    const double back = z.sum - x.sum;
    const double lost = std::fabs((x.sum - (z.sum - back)) + (y.sum - back));  // TwoSum [Hig02 4.3]
    const bool exact = x.worst == 0 && y.worst == 0 && lost == 0;
    z.grid = exact ? grid_of(z.sum) : std::min(x.grid, y.grid);
    // Is z an odd multiple of its grid, because one operand is?
    const Partial& finer = x.grid < y.grid ? x : y;
    const bool odd = exact || (x.grid != y.grid && finer.worst == 0);
    z.worst = x.worst + y.worst + lost;
    z.energy = x.energy + y.energy;
    z.drift = x.drift + y.drift;
    z.bias = x.bias + y.bias;
    z.variance = x.variance + y.variance;
    z.lost = x.lost || y.lost;
    // 2^-40: the FP64 additions of this very bound.
    const double most = (std::fabs(z.sum) + z.worst) * (1 + 0x1p-40);
    if (most == 0) return z;
    const double h = spacing_at(most);
    // The addend to a number of FP32 that the result could have kept.
    const bool x_smaller = std::fabs(x.sum) < std::fabs(y.sum);
    const Partial& smaller = x_smaller ? x : y;
    const bool kept = x_smaller ? y.held : x.held;
    const double addend = (std::fabs(smaller.sum) + smaller.worst) * (1 + 0x1p-40);
    if (h > z.grid && kept && addend < 4 * h && rounding_ != Rounding::stochastic) {
      stagnate(z, h, addend, smaller.sum);
    } else if (h > z.grid) {
      round(z, h, odd);
    }
    flush(z);
    if (most > 0x1.fffffep127) z.worst = infinity;
    const double least = std::fabs(z.sum) - z.worst * (1 + 0x1p-40);
    if (least > 0) z.grid = std::max(z.grid, spacing_at(least));
    return z;
  }

  // A product as FP32 takes it: exact within a fused multiply-add, else rounded. Where subnormals may
  // be flushed, so may its operands and itself.
  Partial product(double a, double b, double grid) const {
    Partial p;  // exact in FP64: 24 bits by 24
    const Arithmetic& now = arithmetic_in_force;
    p.held = !now.fuses;
    p.sum = a * b;
    p.grid = p.sum == 0 ? infinity : grid;
    if (!now.fuses && static_cast<double>(static_cast<float>(p.sum)) != p.sum) {
      round(p, spacing_at(std::fabs(p.sum)), false);
    }
    if (now.flushes && p.sum != 0 &&
        (std::fabs(a) < smallest_normal_fp32 || std::fabs(b) < smallest_normal_fp32)) {
      lose(p, std::fabs(p.sum));
    } else if (!now.fuses) {
      flush(p);
    }
    return p;
  }

 private:
  // An error in which chance has no part.
  static void lose(Partial& z, double c) {
    z.worst += term<"ordered.flush">(c);
    z.drift += c;
    z.lost = true;
  }
  static void flush(Partial& z) {
    if (!arithmetic_in_force.flushes || z.sum == 0) return;
    if (std::fabs(z.sum) - z.worst < smallest_normal_fp32) {
      lose(z, std::min(std::fabs(z.sum) + z.worst, smallest_normal_fp32));
    }
  }

  // Roundings that depend on each other: a small number vanishes each time it is added.
  void stagnate(Partial& z, double h, double addend, double sum) const {
    const bool nearest = rounding_ == Rounding::nearest_even;
    const double c = nearest ? std::min(h / 2, addend) : h;
    z.worst += term<"ordered.stagnation">(c);
    z.drift += term<"ordered.drift">(c);
    const bool away = rounding_ == Rounding::away,
               outward = std::signbit(sum) == std::signbit(z.sum);
    if (nearest ? addend < h / 2 : addend < h && outward != away) {
      z.bias -= sum;  // it vanishes
      return;
    }
    if (away && addend < h) {  // it counts as a whole spacing
      z.bias += std::copysign(h, z.sum) - sum;
      return;
    }
    if (!nearest) z.bias += std::copysign(h / 2, away ? z.sum : -z.sum);
    z.variance += h * h / 12;
  }

  // Rounds; what is lost is uniform over the multiples of the grid, or over its odd multiples.
  void round(Partial& z, double h, bool odd) const {
    const double g = z.grid;
    double c = h / 2;
    switch (rounding_) {
      case Rounding::nearest_even:
        z.variance += term<"ordered.nearest">(variance_of_nearest(h, g, odd));
        break;
      case Rounding::toward_zero:
        c = h;
        z.bias -= term<"ordered.bias">(std::copysign(odd ? h / 2 : (h - g) / 2, z.sum));
        z.variance += term<"ordered.truncated">((h * h - (odd ? 4 : 1) * g * g) / 12);
        break;
      case Rounding::away:
        c = h;
        z.bias += term<"ordered.away">(std::copysign(odd ? h / 2 : (h - g) / 2, z.sum));
        z.variance += term<"ordered.truncated">((h * h - (odd ? 4 : 1) * g * g) / 12);
        break;
      case Rounding::stochastic:
        c = h;
        z.variance += term<"ordered.stochastic">((h * h + (odd ? 2 : -1) * g * g) / 6);
    }
    z.worst += term<"ordered.rounding">(c);
    z.energy += term<"ordered.energy">(c * c);
  }

  Rounding rounding_;
};

struct Factor {
  double value = 0, grid = 0;
};

std::vector<Factor> factors(View<double> x, std::size_t i, bool row) {
  std::vector<Factor> all(row ? x.cols : x.rows);
  for (std::size_t k = 0; k < all.size(); ++k) {
    const double v = row ? x(i, k) : x(k, i);
    all[k] = {v, grid_of(v)};
  }
  return all;
}

Partial one(const std::vector<Factor>& a, const std::vector<Factor>& b, const Order& order) {
  const Walk walk(order.rounding);
  const auto add = [&](const Partial& x, const Partial& y) { return walk.add(x, y); };
  const auto step = [&](const Partial& c, std::size_t k) {
    return walk.add(c, walk.product(a[k].value, b[k].value, a[k].grid * b[k].grid));
  };
  return total<Partial>(order, a.size(), step, add);
}

}  // namespace

double SumErrors::likely(std::size_t e, double lambda) const {
  const double by_chance =
      std::fabs(bias.values[e]) + drift.values[e] + lambda * std::sqrt(energy.values[e]);
  return std::min(worst.values[e], by_chance);
}

SumErrors errors_in_order(View<double> a, View<double> b, const Order& order) {
  if (a.cols != b.rows) throw std::invalid_argument("inner sizes differ");
  const Matrix<double> zeros(a.rows, b.cols);
  SumErrors errors{zeros, zeros, zeros, zeros, zeros, zeros};
  std::vector<std::vector<Factor>> columns;
  for (std::size_t j = 0; j < b.cols; ++j) columns.push_back(factors(b, j, false));
  for (std::size_t i = 0; i < a.rows; ++i) {
    const std::vector<Factor> row = factors(a, i, true);
    for (std::size_t j = 0; j < b.cols; ++j) {
      const Partial sum = one(row, columns[j], order);
      errors.sum(i, j) = sum.sum;
      errors.worst(i, j) = sum.worst * (1 + 0x1p-40);
      errors.energy(i, j) = sum.energy * (1 + 0x1p-40);
      errors.drift(i, j) = sum.drift * (1 + 0x1p-40);
      errors.bias(i, j) = sum.bias;
      errors.variance(i, j) = sum.variance;
      errors.flushed = errors.flushed || sum.lost;
    }
  }
  return errors;
}

}  // namespace plumb::bounds
