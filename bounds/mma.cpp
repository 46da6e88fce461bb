#include "bounds/mma.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace plumb {
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

int exponent_of(double x) { return x > 0 ? std::ilogb(x) : never; }

class Chain {
 public:
  Chain(const Mma& unit) : unit_(unit) {}

  void begin_step() {
    top_ = never;
    count_ = 0;
  }
  void add(double product, const Reach& a, const Reach& b) {
    if (product == 0) return;
    top_ = std::max(top_, a.top + b.top);
    last_[count_++ % most] = a.last + b.last;
    add_to(next_, product);
  }
  void end_step() {
    // Zeros alone leave a sum as it is, unless the grid is coarser than what is kept of it.
    if (count_ == 0 && unit_.kept <= unit_.grid) return;
    const double before = std::fabs(exact_);
    const bool empty = before == 0 && error_ == 0;
    // The unit takes an FP32 number below the normal ones at the exponent of those.
    const int of_sum = empty ? never : std::max(exponent_of(before + error_), fp32.emin);
    const int grid_top = std::max(top_, of_sum);
    if (grid_top == never) return;
    const double spacing = std::ldexp(1.0, grid_top - unit_.grid);
    int cut = 0;
    for (std::size_t i = 0; i < count_; ++i) cut += last_[i] < grid_top - unit_.grid ? 1 : 0;
    // The sum so far has `kept` bits below its leading one, which is at least that of |S| - d.
    const bool whole = empty || (before > error_ &&
                                 std::ilogb(before - error_) - unit_.kept >= grid_top - unit_.grid);
    cut += whole ? 0 : 1;
    add_to(exact_, next_);
    next_ = 0;
    error_ += cut * spacing + lost_;
    lost_ = 0;
    const int result = exponent_of(std::fabs(exact_) + error_);
    // On the finest grid that this step can have had, a small result needs no cutting.
    if (result - unit_.kept > top_ - unit_.grid) error_ += std::ldexp(1.0, result - unit_.kept);
    error_ += 0x1p-149;
  }
  void promote() {
    add_to(done_, exact_);
    done_error_ += error_ + lost_;
    lost_ = 0;
    done_error_ += 0x1p-24 * (std::fabs(done_) + done_error_) + 0x1p-150;
    exact_ = error_ = 0;
  }
  double finish() {
    if (unit_.promoted_after > 0 && (exact_ != 0 || error_ != 0)) promote();
    // Thousands of FP64 additions of positive numbers: less than 2^-40 of their sum is lost.
    return (unit_.promoted_after > 0 ? done_error_ : error_) * (1 + 0x1p-40);
  }

  static constexpr std::size_t most = Mma::most_terms;

 private:
  // sum += x; what FP64 drops is kept (TwoSum [Hig02 4.3]).
  void add_to(double& sum, double x) {
    const double s = sum + x, t = s - sum;
    lost_ += std::fabs((sum - (s - t)) + (x - t));
    sum = s;
  }

  const Mma& unit_;
  int top_ = never;
  std::size_t count_ = 0;
  int last_[most] = {};
  double exact_ = 0, next_ = 0, error_ = 0, lost_ = 0, done_ = 0, done_error_ = 0;
};

double one(const double* a, const Reach* of_a, const double* b, const Reach* of_b, std::size_t n,
           const Mma& unit) {
  Chain chain(unit);
  const auto terms = static_cast<std::size_t>(unit.terms);
  const auto chunk = static_cast<std::size_t>(unit.promoted_after);
  for (std::size_t k = 0; k < n; k += terms) {
    chain.begin_step();
    for (std::size_t t = k; t < std::min(k + terms, n); ++t) {
      chain.add(a[t] * b[t], of_a[t], of_b[t]);
    }
    chain.end_step();
    if (chunk > 0 && (k + terms) % chunk == 0) chain.promote();
  }
  return chain.finish();
}

}  // namespace

Matrix<double> mma_bound(View<double> a, View<double> b, const Mma& unit) {
  if (a.cols != b.rows) throw std::invalid_argument("inner sizes differ");
  unit.check();
  const std::size_t n = a.cols;
  Matrix<double> columns(b.cols, n), bound(a.rows, b.cols);
  Matrix<Reach> of_columns(b.cols, n);
  for (std::size_t j = 0; j < b.cols; ++j) {
    for (std::size_t k = 0; k < n; ++k) {
      columns(j, k) = b(k, j);
      of_columns(j, k) = reach(b(k, j), unit.input);
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
      bound(i, j) = one(row.data(), of_row.data(), columns.row(j), of_columns.row(j), n, unit);
    }
  }
  return bound;
}

Outcome<Tolerance> tolerance_on(const Machine& machine, const Operation& operation,
                                const ToleranceCall& call, const Format& input) {
  if (machine.is_ieee()) return operation.tolerance(call);
  const auto refuse = [&](const std::string& why) {
    return Refusal{Why::unsupported, "machine '" + machine.id + "' cuts its sums: " + why};
  };
  if (operation.id != "gemm")
    return refuse("only gemm has a bound there, not " + std::string(operation.id));
  if (call.mode != Mode::deterministic) {
    return refuse("errors of one sign have no mean of zero; ask for the rule deterministic");
  }
  if (call.how.parts != 1 || call.inputs.size() != 2) {
    return refuse("only a whole product without bias is described");
  }
  const std::optional<Mma> unit = machine.mma(input);
  if (!unit) return refuse("its card has no matrix unit for " + std::string(input.name));
  Tolerance t{Mode::deterministic, 0, {}, {}, {}};
  t.bound = {mma_bound(view(call[0], call.attribute("transpose_a") != 0),
                       view(call[1], call.attribute("transpose_b") != 0), *unit)};
  double sums = 0, stored = 0;
  for (std::size_t e = 0; e < t.bound[0].size(); ++e) {
    double& bound = t.bound[0].values[e];
    sums = std::max(sums, bound);
    if (call.how.output == fp32) continue;
    const double cast = ulp(std::fabs(call.values[0].values[e]) + bound, call.how.output) / 2;
    stored = std::max(stored, cast);
    bound += cast;
  }
  t.terms = {{{"matrix unit",
               "sum over steps of (cut addends) 2^(E-" + std::to_string(unit->grid) + ") + 2^(e-" +
                   std::to_string(unit->kept) + ")",
               sums},
              {"stored", "half a spacing of " + std::string(call.how.output.name), stored}}};
  return t;
}

}  // namespace plumb
