#include "bounds/mma.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <stdexcept>

#include "bounds/proof/grid.hpp"
#include "bounds/proof/term.hpp"

namespace plumb::bounds {
namespace {

constexpr int never = std::numeric_limits<int>::min() / 4;

// Exponents of a number's leading and last bit.
struct Reach {
  int top = never, last = never;
};

Reach reach(double x, const Format& format) {
  if (x == 0 || !std::isfinite(x)) return {never, -never};
  const int top = std::max(std::ilogb(x), format.emin);
  int last = top - format.precision + 1;
  const double units = std::fabs(std::ldexp(x, -last));
  // Trailing zeros of the significand.
  for (double u = units; u == 2 * std::floor(u / 2); u /= 2) ++last;
  return {top, last};
}

int last_bit(double x) { return x == 0 ? -never : std::ilogb(grid_of(x)); }

int exponent_of(double x) { return x > 0 ? std::ilogb(x) : never; }

// sum += x; what FP64 drops is kept (TwoSum [Hig02 4.3]).
void add_to(double& sum, double x, double& lost) {
  const double s = sum + x, t = s - sum;
  lost += std::fabs((sum - (s - t)) + (x - t));
  sum = s;
}

// The products of one step.
class Step {
 public:
  void begin() {
    top = never;
    count_ = 0;
    sum = lost = 0;
  }
  void add(double product, const Reach& a, const Reach& b) {
    if (product == 0) return;
    top = std::max(top, a.top + b.top);
    addends_[count_++ % Mma::most_terms] = {a.last + b.last, product};
    add_to(sum, product, lost);
  }
  struct Addend {
    int last;  // exponent of its last bit
    double value;
  };
  std::span<const Addend> addends() const { return {addends_, count_}; }
  // Exponent of the power of two that all that remains of the addends on a grid is a multiple of.
  int last_on(int grid) const {
    int last = -never;
    for (const Addend& x : addends()) last = std::min(last, std::max(x.last, grid));
    return last;
  }

  // The sum of the products, each cut toward zero to a multiple of 2^grid. Exact.
  double cut_at(int grid) const {
    double units = 0;
    for (const Addend& x : addends()) units += std::trunc(std::ldexp(x.value, -grid));
    return std::ldexp(units, grid);
  }

  int top = never;           // largest exponent of a product
  double sum = 0, lost = 0;  // of the products; what FP64 drops of it

 private:
  std::size_t count_ = 0;
  Addend addends_[Mma::most_terms] = {};
};

// The sum so far, exactly, and how far the unit's may be from it.
class Worst {
 public:
  explicit Worst(const Mma& unit) : unit_(unit) {}

  void take(const Step& step) {
    // Zeros alone leave a sum as it is, unless the grid is coarser than what is kept of it.
    if (step.addends().empty() && unit_.kept <= unit_.grid) return;
    const double before = std::fabs(exact);
    const bool empty = before == 0 && error == 0;
    // The unit takes an FP32 number below the normal ones at the exponent of those.
    const int of_sum = empty ? never : std::max(exponent_of(before + error), fp32.emin);
    const int grid =
        std::max(step.top, of_sum) - unit_.grid;  // at most; at least that of the products
    if (std::max(step.top, of_sum) == never) return;
    int cuts = !empty && last_ < grid ? 1 : 0;
    for (const Step::Addend& x : step.addends()) cuts += x.last < grid ? 1 : 0;
    double lost = step.lost;
    add_to(exact, step.sum, lost);
    cut(term<"mma.grid">(cuts), grid);
    error += lost;
    const int result = exponent_of(std::fabs(exact) + error);
    const int finest = step.top - unit_.grid;
    last_ = std::min(step.last_on(finest), empty ? -never : std::max(last_, finest));
    if (result - unit_.kept > last_) cut(term<"mma.kept">(1), result - unit_.kept);
    error += term<"mma.subnormal">(0x1p-149);
    energy += 0x1p-298;
    // The unit keeps `kept` bits below the leading one, which is at least that of |S| - d.
    const double least = std::fabs(exact) - error;
    if (least > 0) last_ = std::max(last_, std::ilogb(least) - unit_.kept);
  }

  double exact = 0, error = 0, energy = 0;

 private:
  void cut(double times, int exponent) {
    const double spacing = times > 0 ? std::ldexp(1.0, exponent) : 0;
    error += times * spacing;
    energy += times * spacing * spacing;
  }

  Mma unit_;
  int last_ = -never;  // the unit's sum is a multiple of 2 to this
};

// Mean and variance of what the unit cuts. Exponents are those of the likely sum.
class Likely {
 public:
  explicit Likely(const Mma& unit) : unit_(unit) {}

  void take(const Step& step, double exact_before) {
    const double before = std::fabs(exact_before + bias);
    const int of_sum = before > 0 ? std::max(std::ilogb(before), fp32.emin) : never;
    if (std::max(step.top, of_sum) == never) return;
    const int grid = std::max(step.top, of_sum) - unit_.grid;
    const double sign = std::copysign(1.0, exact_before + bias);
    lose_of_products(step, before, of_sum);
    if (before > 0) cut(last_, grid, false, sign);
    const int of_products = last_bit(step.cut_at(grid));
    const int of_before = before > 0 ? std::max(last_, grid) : -never;
    const bool odd = of_products < of_before;  // then the sum ends where its products do
    last_ = std::min(of_products, of_before);
    const double after = exact_before + step.sum + bias;
    if (after == 0) return;
    const int kept = std::ilogb(after) - unit_.kept;
    cut(last_, kept, odd, std::copysign(1.0, after));
    last_ = std::max(last_, kept);
  }

  // The power of two that the sum is a multiple of.
  double grid() const { return std::ldexp(1.0, last_); }

  double bias = 0, variance = 0;

 private:
  // Products are known, and so is what they lose to the grid. The grid depends on the side of a
  // power of two on which the sum before them lies.
  void lose_of_products(const Step& step, double before, int of_sum) {
    const auto left = [&](int exponent) {
      return step.cut_at(std::max(step.top, exponent) - unit_.grid);
    };
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
  explicit Chain(const Mma& unit) : unit_(unit), worst_(unit), likely_(unit) {}

  void take(const Step& step) {
    likely_.take(step, worst_.exact);
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
  double bias() const { return bias_ + likely_.bias; }
  double variance() const { return variance_ + likely_.variance; }

 private:
  Mma unit_;
  Worst worst_;
  Likely likely_;
  double done_ = 0, error_ = 0, energy_ = 0, bias_ = 0, variance_ = 0;  // of promoted sums
  double grid_ = std::numeric_limits<double>::infinity();
};

Chain one(const double* a, const Reach* of_a, const double* b, const Reach* of_b, std::size_t n,
          const Mma& unit) {
  Chain chain(unit);
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

}  // namespace

SumErrors mma_errors(View<double> a, View<double> b, const Mma& unit) {
  if (a.cols != b.rows) throw std::invalid_argument("inner sizes differ");
  unit.check();
  const std::size_t n = a.cols;
  const Matrix<double> zeros(a.rows, b.cols);
  SumErrors errors{zeros, zeros, zeros, zeros, zeros, zeros};
  Matrix<double> columns(b.cols, n);
  Matrix<Reach> of_columns(b.cols, n);
  for (std::size_t j = 0; j < b.cols; ++j) {
    for (std::size_t k = 0; k < n; ++k) {
      columns(j, k) = b(k, j);
      of_columns(j, k) = reach(b(k, j), unit.second_input());
    }
  }
  std::vector<double> row(n);
  std::vector<Reach> of_row(n);
  for (std::size_t i = 0; i < a.rows; ++i) {
    for (std::size_t k = 0; k < n; ++k) {
      row[k] = a(i, k);
      of_row[k] = reach(row[k], unit.input);
    }
    for (std::size_t j = 0; j < b.cols; ++j) {
      const Chain sum = one(row.data(), of_row.data(), columns.row(j), of_columns.row(j), n, unit);
      errors.sum(i, j) = sum.exact();
      errors.worst(i, j) = sum.worst();
      errors.energy(i, j) = sum.energy();
      errors.bias(i, j) = sum.bias();
      errors.variance(i, j) = sum.variance();
    }
  }
  return errors;
}

}  // namespace plumb::bounds
