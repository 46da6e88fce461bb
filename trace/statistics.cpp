#include "trace/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "number/lanes.hpp"

namespace plumb::trace {
namespace {

constexpr double tiny = std::numeric_limits<double>::min();

// Also where x is no number: nobody's error hides behind a draw that is not finite.
double at_least_tiny(double x) { return x > tiny ? x : tiny; }

// Infinity times zero would hide what is worse.
float as_float(double x) {
  return static_cast<float>(std::min(x, static_cast<double>(std::numeric_limits<float>::max())));
}

// The largest max(|e| - u, 0)^2 / (field + u^2 / 12) of a difference; a row's share times
// columns[j] is the field of its element j.
class WorstElement {
 public:
  WorstElement(const Format& format, const std::vector<double>& columns)
      : ulps_(format), columns_(columns), roots_(columns.size() + lanes) {
    for (std::size_t j = 0; j < columns.size(); ++j) roots_[j] = as_float(std::sqrt(columns[j]));
    if (!columns.empty()) smallest_ = *std::ranges::min_element(columns);
  }

  // Can a row be the worst of all, of which this was seen? Where the field is no number, yes.
  bool can_be_in(const OfRows::Row& row, double share) const {
    const double excess = row.excess;
    return excess > 0 && !(excess * excess < down * worst_ * share * smallest_);
  }

  void see(const float* reference, const float* other, std::size_t n, double share) {
    Least least = least_of(share);
    by_groups<lanes>(reference, other, n,
                     [&](const float* of_r, const float* of_x, const auto& count, std::size_t j) {
                       Floats r, x, root;
                       std::memcpy(&r, of_r, sizeof r);
                       std::memcpy(&x, of_x, sizeof x);
                       std::memcpy(&root, &roots_[j], sizeof root);
                       const Floats e = x - r, u = ulps_(r);
                       const Floats excess = (Floats)((Ints)e & 0x7fffffff) - u;
                       const Floats by_field = root * least.of_field, by_ulp = u * least.of_ulp;
                       const Floats to_pass = by_field > by_ulp ? by_field : by_ulp;
                       if (!any((excess > 0) & (excess >= to_pass))) return;
                       look_closer(of_r, of_x, u, share, j, count);
                       least = least_of(share);
                     });
  }

  double root() const { return std::sqrt(worst_); }

 private:
  // Below what an excess has to reach, by more than what FP32 may lose beside it, among normal numbers.
  static constexpr double down = 1 - 0x1p-20;
  // What it has to reach, in roots of columns and in ulps, to be the worst so far.
  struct Least {
    float of_field, of_ulp;
  };
  Least least_of(double share) const {
    return {as_float(down * std::sqrt(worst_ * share)), as_float(down * std::sqrt(worst_ / 12))};
  }

  void look_closer(const float* of_r, const float* of_x, const Floats& ulps, double share,
                   std::size_t first, std::size_t count) {
    std::array<float, lanes> u;
    std::memcpy(u.data(), &ulps, sizeof ulps);
    for (std::size_t l = 0; l < count; ++l) {
      const double e = static_cast<double>(of_x[l]) - of_r[l], grain = u[l];
      const double excess = std::fabs(e) - grain;
      if (!(excess > 0)) continue;
      const double field = share * columns_[first + l] + grain * grain / 12;
      worst_ = std::max(worst_, excess * excess / at_least_tiny(field));
    }
  }

  const Ulps ulps_;
  const std::vector<double>& columns_;
  std::vector<float> roots_;  // of columns_; zeros beyond
  double smallest_ = 0;       // of columns_
  double worst_ = 0;          // squared
};

double mean_of(const std::vector<double>& x) {
  double sum = 0;
  for (const double v : x) sum += v;
  return x.empty() ? 0 : sum / static_cast<double>(x.size());
}

// Shrinks each by one part to their mean: where a rounding is rare no draw may have it. To no more than
// the worst of them errs in its own ulps, or one large column would speak for all (twins.md S3). Of a few
// numbers ulps say nothing: they may all lie near zero by chance, and their errors need not.
void shrink(std::vector<double>& energies, const std::vector<double>& floors, std::size_t numbers,
            double part) {
  constexpr std::size_t few = 8;  // all below a quarter of their scale: a chance of 4^-8
  const double mean = mean_of(energies);
  double worst = numbers < few ? std::numeric_limits<double>::infinity() : 0;
  for (std::size_t i = 0; i < energies.size(); ++i) {
    worst = std::max(worst, energies[i] / at_least_tiny(floors[i]));
  }
  for (std::size_t i = 0; i < energies.size(); ++i) {
    const double target = std::min(mean, worst * at_least_tiny(floors[i]));
    energies[i] += part * (target - energies[i]);
  }
}

}  // namespace

std::string_view name_of(Statistic statistic) {
  constexpr std::array names{"norm", "mismatch", "scale", "row", "element"};
  return names[static_cast<std::size_t>(statistic)];
}

Draws::Draws(Whole reference, const Format& format, std::vector<Whole> draws)
    : draws_(std::move(draws)) {
  all_.reference_ = std::move(reference);
  all_.format_ = format;
  const Whole& base = all_.reference_;
  const std::size_t rows = base.rows, cols = base.cols;
  all_.floor_.resize(rows);
  column_energy_.resize(draws_.size(), std::vector<double>(cols));
  seen_.resize(draws_.size());
  const Ulps ulps(format);
  Reading of_r(base);
  std::vector<Reading> of_draws(draws_.begin(), draws_.end());
  std::vector<RowSums> sums(draws_.size(), RowSums(format, cols));
  for (OfRows& seen : seen_) seen.rows.resize(rows);
  std::vector<float> column_ulps((cols + lanes - 1) / lanes * lanes);
  by_some_rows(base, [&](std::size_t first, std::size_t n) {
    const float* r = of_r(first * cols, n * cols);
    for (std::size_t i = 0; i < n; ++i) {
      const auto [energy, floor] = of_reference(r + i * cols, cols, ulps);
      all_.energy_ += energy;
      all_.floor_[first + i] = floor;
      if (cols > 1) add_ulps(r + i * cols, cols, ulps, column_ulps);
    }
    for (std::size_t k = 0; k < draws_.size(); ++k) {
      const float* x = of_draws[k](first * cols, n * cols);
      sums[k].see(r, x, n, &seen_[k].rows[first], column_energy_[k].data());
    }
  });
  for (std::size_t k = 0; k < draws_.size(); ++k) sums[k].tell(seen_[k]);
  all_.column_floor_.resize(cols);
  for (std::size_t j = 0; j < cols; ++j) {
    all_.column_floor_[j] = static_cast<double>(column_ulps[j]) * column_ulps[j];
  }
  all_.field_ = field({});
}

OfRows Expectation::seen_of(const Whole& x, std::optional<std::size_t> skip) const {
  const std::size_t cols = reference_.cols;
  RowSums sums(format_, cols);
  OfRows seen{std::vector<OfRows::Row>(reference_.rows)};
  Reading of_r(reference_), of_x(x);
  by_some_rows(reference_, [&](std::size_t first, std::size_t n) {
    const float *r = of_r(first * cols, n * cols), *other = of_x(first * cols, n * cols);
    if (!skip) return sums.see(r, other, n, &seen.rows[first], nullptr);
    for (std::size_t i = 0; i < n; ++i) {
      if (skip == first + i) continue;
      sums.see(r + i * cols, other + i * cols, 1, &seen.rows[first + i], nullptr);
    }
  });
  sums.tell(seen);
  return seen;
}

Expectation::Field Draws::field(std::optional<std::size_t> without) const {
  const Whole& base = all_.reference_;
  Expectation::Field f{std::vector<double>(base.rows), std::vector<double>(base.cols), 0};
  double n = 0;
  for (std::size_t k = 0; k < draws_.size(); ++k) {
    if (without == k) continue;
    ++n;
    for (std::size_t i = 0; i < f.rows.size(); ++i) f.rows[i] += seen_[k].rows[i].energy;
    for (std::size_t j = 0; j < f.columns.size(); ++j) f.columns[j] += column_energy_[k][j];
  }
  if (n == 0) return f;
  for (double& a : f.rows) a /= n;
  for (double& b : f.columns) b /= n;
  for (const double a : f.rows) f.scale += a;
  // The same share for a draw and for a candidate: where nobody errs its field is all that it has.
  const double share = 1 / std::max(static_cast<double>(draws_.size()), 2.0);
  shrink(f.rows, all_.floor_, base.cols, share);
  shrink(f.columns, all_.column_floor_, base.rows, share);
  return f;
}

double Expectation::worst_element(const Whole& x, const OfRows& seen, const Field& f) const {
  const std::size_t cols = reference_.cols;
  const bool vector = cols == 1;  // each element is a row: its field is the row's
  const std::vector<double> ones(vector ? 1 : 0, 1.0);
  const double share = vector ? 1 : 1 / std::max(f.scale, tiny);
  WorstElement worst(format_, vector ? ones : f.columns);
  Reading of_r(reference_), of_x(x);
  const auto look = [&](std::size_t first, std::size_t n) {
    const float *r = nullptr, *other = nullptr;  // read if need be
    for (std::size_t i = first; i < first + n; ++i) {
      if (!worst.can_be_in(seen.rows[i], f.rows[i] * share)) continue;
      if (r == nullptr) {
        r = of_r(first * cols, n * cols);
        other = of_x(first * cols, n * cols);
      }
      const std::size_t from = (i - first) * cols;
      worst.see(r + from, other + from, cols, f.rows[i] * share);
    }
  };
  // The most likely row at first: most others need not be read then.
  std::size_t likeliest = 0;
  double largest = 0;
  for (std::size_t i = 0; i < reference_.rows; ++i) {
    const double excess = seen.rows[i].excess, field = at_least_tiny(f.rows[i]);
    if (!(excess * excess > largest * field)) continue;
    largest = excess * excess / field;
    likeliest = i;
  }
  if (reference_.rows > 0) look(likeliest, 1);
  by_some_rows(reference_, look);
  return worst.root();
}

Sample Expectation::measured(const Whole& x, const OfRows& seen, const Field& f) const {
  const bool vector = reference_.cols == 1;
  double norm = 0, worst_row = 0;
  for (std::size_t i = 0; i < seen.rows.size(); ++i) {
    const auto& [energy, free, excess] = seen.rows[i];
    norm += energy;
    const double left = vector ? energy : std::max(energy - free, 0.0);
    const double allowed = f.rows[i] + 0.01 * floor_[i] + tiny;
    if (left > worst_row * allowed) worst_row = left / allowed;
  }
  Sample s{};
  s[0] = std::sqrt(norm);
  s[1] = seen.different / static_cast<double>(std::max<std::size_t>(reference_.size(), 1));
  s[2] = energy_ > 0 ? seen.along / energy_ : 0;
  s[3] = std::sqrt(worst_row);
  s[4] = worst_element(x, seen, f);
  return s;
}

Sample Draws::of_draw(std::size_t k) const { return all_.measured(draws_[k], seen_[k], field(k)); }

Sample Expectation::of(const Whole& candidate, std::optional<std::size_t> without_row) const {
  return measured(candidate, seen_of(candidate, without_row), field_);
}

double Draws::relative_noise() const {
  double sum = 0;
  for (const OfRows& seen : seen_) {
    for (const OfRows::Row& row : seen.rows) sum += row.energy;
  }
  const double mean = draws_.empty() ? 0 : sum / static_cast<double>(draws_.size());
  return all_.energy_ > 0 ? std::sqrt(mean / all_.energy_)
                          : std::numeric_limits<double>::infinity();
}

TopRow top_row(const Whole& a, const Whole& b) {
  TopRow top;
  double all = 0, largest = 0;
  by_rows(a, b, [&](std::size_t i, const float* x, const float* y) {
    double energy = 0;
    for (std::size_t j = 0; j < a.cols; ++j) {
      const double d = static_cast<double>(x[j]) - y[j];
      energy += d * d;
    }
    all += energy;
    if (energy > largest) {
      largest = energy;
      top.row = i;
    }
  });
  top.share = all > 0 ? largest / all : 0;
  return top;
}

}  // namespace plumb::trace
