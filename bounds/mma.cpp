#include "bounds/mma.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "bounds/mma_any.hpp"
#include "bounds/mma_step.hpp"
#include "bounds/mma_worst.hpp"
#include "bounds/proof/grid.hpp"
#include "bounds/proof/term.hpp"

namespace plumb::bounds {
namespace {

int last_bit(double x) { return x == 0 ? -never : exponent_of(grid_of(x)); }

// Mean and variance of what the unit cuts. Exponents are those of the likely sum.
class Likely {
 public:
  explicit Likely(const Mma& unit) : unit_(unit) {}

  void take(const Step& step, double exact_before) {
    const double before = std::fabs(exact_before + bias);
    const int of_sum = before > 0 ? std::max(std::ilogb(before), unit_.sum.emin) : never;
    if (std::max(step.top, of_sum) == never) return;
    const int grid = grid_of_step(step, of_sum);
    const double sign = std::copysign(1.0, exact_before + bias);
    if (!exactly()) lose_of_products(step, before, of_sum);
    if (before > 0) cut(last_, grid, false, sign);
    const double products = exactly() ? step.sum : step.cut_at(grid);
    const int of_products = exactly() ? step.last_on(never) : last_bit(products);
    const int of_before = before > 0 ? std::max(last_, grid) : -never;
    const bool odd = of_products < of_before;  // then the sum ends where its products do
    last_ = std::min(of_products, of_before);
    const double after = exact_before + step.sum + bias;
    if (after == 0) return;
    const int kept = std::max(std::ilogb(after), unit_.sum.emin) - unit_.kept;
    if (exactly() || unit_.nearest) {
      round(last_, kept, odd, of_before >= kept ? products : 0);
    } else {
      cut(last_, kept, odd, std::copysign(1.0, after));
    }
    last_ = std::max(last_, kept);
  }

  // The power of two that the sum is a multiple of.
  double grid() const { return std::ldexp(1.0, last_); }

  double bias = 0, variance = 0;

 private:
  // Products are known, and so is what they lose to the grid. The grid depends on the side of a
  // power of two on which the sum before them lies.
  void lose_of_products(const Step& step, double before, int of_sum) {
    const auto left = [&](int exponent) { return step.cut_at(grid_of_step(step, exponent)); };
    const double likely = left(of_sum), power = std::ldexp(1.0, of_sum);
    const bool low = before < 1.5 * power;
    const double distance = low ? before - power : 2 * power - before;
    const double deviation = term<"mma.edge">(std::sqrt(variance));
    bias += term<"mma.products">(likely - step.sum);
    if (!(distance < 6 * deviation)) return;
    const double p = std::erfc(distance / (deviation * std::sqrt(2))) / 2;
    const double other = left(low ? of_sum - 1 : of_sum + 1) - likely;
    bias += p * other;
    variance += p * (1 - p) * other * other;
  }
  bool exactly() const { return unit_.kind == Mma::Kind::exact; }
  int grid_of_step(const Step& step, int of_sum) const {
    if (exactly()) return never;
    return std::max({step.top, of_sum, unit_.zero.value_or(never)}) - unit_.grid;
  }
  // To nearest. What is added to a multiple of 2^to (else 0) loses what it would lose alone; a tie
  // half a spacing, in either direction.
  void round(int last, int to, bool odd, double added) {
    if (last >= to) return;
    const double h = std::ldexp(1.0, to);
    const double alone = std::nearbyint(added / h) * h - added;
    const bool tie = std::fabs(alone) == h / 2;
    if (added != 0 && !tie) {
      bias += term<"mma.vanished">(alone);
    } else {
      const double g = added != 0 ? h / 2 : std::ldexp(1.0, last);
      variance += term<"mma.variance_of_nearest">(variance_of_nearest(h, g, odd || tie));
    }
  }
  // Cuts a multiple of 2^last (an odd one if that is its last bit) to a multiple of 2^to.
  void cut(int last, int to, bool odd, double sign) {
    if (last >= to) return;
    const double h = std::ldexp(1.0, to), g = std::ldexp(1.0, last);
    bias -= term<"mma.bias">(sign * (odd ? h : h - g) / 2);
    variance += term<"mma.variance">((h * h - (odd ? 4 : 1) * g * g) / 12);
  }

  Mma unit_;
  int last_ = -never;
};

// One element of the product.
class Chain {
 public:
  Chain(const Mma& unit, Asked asked)
      : unit_(unit),
        foretells_(asked == Asked::all && unit.foretold()),
        worst_(unit),
        likely_(unit) {}

  void take(const Step& step) {
    if (foretells_) likely_.take(step, worst_.exact);
    worst_.take(step);
  }
  // Adds the sum to an FP32 number, nearest even, and starts again at zero.
  void promote() {
    double lost = 0;
    add_to(done_, worst_.exact, lost);
    error_ += worst_.error + lost;
    const double rounding = term<"mma.promotion">(0x1p-24 * (std::fabs(done_) + error_) + 0x1p-150);
    error_ += rounding;
    energy_ += worst_.energy + rounding * rounding;
    drift_ += worst_.drift;
    bias_ += likely_.bias;
    const double sum = std::fabs(done_ + bias_), h = sum > 0 ? spacing_at(sum) : 0;
    const double g = std::min(grid_, likely_.grid());
    variance_ +=
        likely_.variance + term<"mma.promoted">(h > g ? variance_of_nearest(h, g, false) : 0);
    grid_ = std::max(h, g);
    worst_ = Worst(unit_);
    likely_ = Likely(unit_);
  }
  void finish() {
    if (unit_.promoted_after > 0 && (worst_.exact != 0 || worst_.error != 0)) promote();
  }
  // Thousands of FP64 additions of positive numbers: less than 2^-40 of their sum is lost.
  double worst() const { return (error_ + worst_.error) * (1 + 0x1p-40); }
  double exact() const { return done_ + worst_.exact; }
  double energy() const { return (energy_ + worst_.energy) * (1 + 0x1p-40); }
  double drift() const { return (drift_ + worst_.drift) * (1 + 0x1p-40); }
  double bias() const { return bias_ + likely_.bias; }
  double variance() const { return std::isinf(worst()) ? worst() : variance_ + likely_.variance; }

 private:
  Mma unit_;
  bool foretells_;
  Worst worst_;
  Likely likely_;
  double done_ = 0, error_ = 0, energy_ = 0, drift_ = 0, bias_ = 0,
         variance_ = 0;  // of promoted sums
  double grid_ = std::numeric_limits<double>::infinity();
};

Chain one(const double* a, const Reach* of_a, const double* b, const Reach* of_b, std::size_t n,
          const Mma& unit, Asked asked) {
  Chain chain(unit, asked);
  Step step;
  const auto terms = static_cast<std::size_t>(unit.terms);
  const auto chunk = static_cast<std::size_t>(unit.promoted_after);
  for (std::size_t k = 0; k < n; k += terms) {
    step.begin();
    for (std::size_t t = k; t < std::min(k + terms, n); ++t)
      step.add(a[t] * b[t], of_a[t], of_b[t]);
    chain.take(step);
    if (chunk > 0 && (k + terms) % chunk == 0) chain.promote();
  }
  chain.finish();
  return chain;
}

// x and where its bits lie, scaled.
Reach scaled(double& x, const Format& format, double scale) {
  Reach is = reach(x, format);
  if (x == 0) return is;
  x *= scale;
  const int by = std::ilogb(scale);
  is.top += by;
  is.last += by;
  return is;
}

SumErrors errors_of(View<double> a, View<double> b, const BlockScales* scales, const Mma& unit,
                    Asked asked) {
  if (a.cols != b.rows) throw std::invalid_argument("inner sizes differ");
  unit.check();
  const std::size_t n = a.cols, block = static_cast<std::size_t>(std::max(unit.block, 1));
  const Matrix<double> zeros(a.rows, b.cols);
  SumErrors errors{zeros, zeros, zeros, zeros, zeros, zeros};
  Matrix<double> columns(b.cols, n);
  Matrix<Reach> of_columns(b.cols, n);
  for (std::size_t j = 0; j < b.cols; ++j) {
    for (std::size_t k = 0; k < n; ++k) {
      columns(j, k) = b(k, j);
      const double scale = scales != nullptr ? scales->b(k / block, j) : 1;
      of_columns(j, k) = scaled(columns(j, k), unit.second_input(), scale);
    }
  }
  std::vector<double> row(n);
  std::vector<Reach> of_row(n);
  for (std::size_t i = 0; i < a.rows; ++i) {
    for (std::size_t k = 0; k < n; ++k) {
      row[k] = a(i, k);
      of_row[k] = scaled(row[k], unit.input, scales != nullptr ? scales->a(i, k / block) : 1);
    }
    for (std::size_t j = 0; j < b.cols; ++j) {
      if (unit.any_steps) {
        const AnySteps sum =
            in_any_steps(row.data(), of_row.data(), columns.row(j), of_columns.row(j), n, unit);
        errors.sum(i, j) = sum.exact;
        errors.worst(i, j) = sum.worst;
        continue;
      }
      const Chain sum =
          one(row.data(), of_row.data(), columns.row(j), of_columns.row(j), n, unit, asked);
      errors.sum(i, j) = sum.exact();
      errors.worst(i, j) = sum.worst();
      errors.energy(i, j) = sum.energy();
      errors.drift(i, j) = sum.drift();
      errors.bias(i, j) = sum.bias();
      errors.variance(i, j) = sum.variance();
    }
  }
  return errors;
}

}  // namespace

SumErrors mma_errors(View<double> a, View<double> b, const Mma& unit, Asked asked) {
  return errors_of(a, b, nullptr, unit, asked);
}

SumErrors mma_errors(View<double> a, View<double> b, const BlockScales& scales, const Mma& unit,
                     Asked asked) {
  if (unit.block < 1) throw std::invalid_argument("the unit scales no blocks");
  return errors_of(a, b, &scales, unit, asked);
}

std::string words_of(const Mma& unit) {
  if (unit.any_steps) return "of each step, in any arrangement: what it cuts of the largest sum";
  const std::string grid = "2^(E-" + std::to_string(unit.grid) + ")";
  const std::string kept = "2^(e-" + std::to_string(unit.kept) + ")";
  switch (unit.kind) {
    case Mma::Kind::exact:
      return "sum over steps of 2^(e-24)";
    case Mma::Kind::paired:
      return "sum over additions of 2^-24 |sum|, and what is flushed";
    case Mma::Kind::floored:
      return "sum over steps of (cut addends) " + grid + " + " + kept + " + 2^(e-24)";
    default:
      return "sum over steps of (cut addends) " + grid + " + " + kept +
             (unit.nearest ? " / 2" : "");
  }
}

}  // namespace plumb::bounds
