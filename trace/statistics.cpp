#include "trace/statistics.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "number/lanes.hpp"

namespace plumb::trace {
namespace {

constexpr double tiny = std::numeric_limits<double>::min();

// Calls f(reference, other, how many, index of the first) for so many elements of a row at a time;
// how many is a constant but for the last. Those beyond the end can be read, and are 0.
template <std::size_t width, class F>
void by_groups(const float* reference, const float* other, std::size_t n, const F& f) {
  std::size_t j = 0;
  for (; j + width <= n; j += width) {
    f(reference + j, other + j, std::integral_constant<std::size_t, width>(), j);
  }
  if (j == n) return;
  std::array<float, width> r{}, x{};
  std::copy(reference + j, reference + n, r.begin());
  std::copy(other + j, other + n, x.begin());
  f(r.data(), x.data(), n - j, j);
}

struct Wide {
  Doubles r, e;  // reference and difference
  Wide(const float* reference, const float* other) {
    widen(reference, r);
    widen(other, e);
    e -= r;
  }
};

// The ulp of numbers of a format: a power of two, which FP32 holds.
struct Ulps {
  float relative;
  Floats at_zero;
  explicit Ulps(const Format& format)
      : relative(std::ldexp(2.0F, -format.precision)),
        at_zero(Floats{} + static_cast<float>(format.spacing_at_zero())) {}
  Floats operator()(const Floats& x) const {
    const Floats u = (Floats)((Ints)x & 0x7f800000) * relative;
    return u > at_zero ? u : at_zero;
  }
};

// u^2 / 12 of eight ulps.
Doubles grains(const float* ulps) {
  Doubles u;
  widen(ulps, u);
  return u * u * (1.0 / 12);
}

// A row of the reference: the sum of its squares, and that of u^2 / 12.
struct OfReference {
  double energy, floor;
};
OfReference of_reference(const float* reference, std::size_t n, const Ulps& ulps) {
  Doubles energy{}, floor{};
  by_groups<lanes>(reference, reference, n, [&](const float* of_r, auto, const auto& count, auto) {
    Floats r;
    std::memcpy(&r, of_r, sizeof r);
    std::array<float, lanes> u{};
    r = ulps(r);
    std::memcpy(u.data(), &r, count * sizeof(float));
    floor += grains(u.data());
    floor += grains(u.data() + doubles);
    Doubles low, high;
    widen(of_r, low);
    widen(of_r + doubles, high);
    energy += low * low;
    energy += high * high;
  });
  return {total_of(energy), total_of(floor)};
}

// The sums over one difference, row by row.
class Sums {
 public:
  explicit Sums(const Format& format) : ulps_(format) {}

  // Adds e^2 to the energies of the columns, where there are any.
  template <bool with_columns>
  OfRows::Row see(const float* reference, const float* other, std::size_t n, double* columns) {
    // In locals and by halves: GCC 12 keeps them in registers, and no sum waits for another.
    Doubles energy{}, energy_high{}, along{}, along_high{};
    Floats free{}, excess{};
    Ints different{};
    by_groups<lanes>(reference, other, n,
                     [&](const float* of_r, const float* of_x, const auto& count, std::size_t j) {
                       Floats r, x;
                       std::memcpy(&r, of_r, sizeof r);
                       std::memcpy(&x, of_x, sizeof x);
                       different -= x != r;
                       // Whether |e| or u is larger FP32 says rightly: u is a power of two, and e is
                       // exact up to half of r.
                       const Floats e = x - r;
                       const Floats size = (Floats)((Ints)e & 0x7fffffff), u = ulps_(r);
                       const Floats small = size < u ? size : u, left = size - small;
                       free = free < small ? small : free;
                       excess = excess < left ? left : excess;
                       const Wide low(of_r, of_x), high(of_r + doubles, of_x + doubles);
                       const Doubles square = low.e * low.e, square_high = high.e * high.e;
                       energy += square;
                       energy_high += square_high;
                       along += low.e * low.r;
                       along_high += high.e * high.r;
                       if constexpr (with_columns) {
                         add(square, columns + j, std::min<std::size_t>(count, doubles));
                         if (count > doubles)
                           add(square_high, columns + j + doubles, count - doubles);
                       }
                     });
    along_ += along + along_high;
    different_ += different;
    since_counted_ += n;
    if (since_counted_ >= most_counted) count();
    return {total_of(energy + energy_high), largest_of(free), largest_of(excess)};
  }

  void tell(OfRows& seen) {
    count();
    seen.along = total_of(along_);
    seen.different = counted_;
  }

 private:
  static constexpr std::size_t most_counted = std::size_t(1) << 30;  // that a lane holds surely

  static void add(const Doubles& squares, double* columns, std::size_t count) {
    Doubles sums{};
    std::memcpy(&sums, columns, count * sizeof(double));
    sums += squares;
    std::memcpy(columns, &sums, count * sizeof(double));
  }

  void count() {
    for (std::size_t l = 0; l < lanes; ++l) counted_ += different_[l];
    different_ = Ints{};
    since_counted_ = 0;
  }

  Ulps ulps_;
  Doubles along_{};
  Ints different_{};
  std::size_t since_counted_ = 0;
  double counted_ = 0;
};

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
    if (!columns.empty()) smallest_root_ = as_float(std::sqrt(*std::ranges::min_element(columns)));
  }

  // Can a row be the worst of all, of which this was seen? Where the field is no number, yes.
  bool can_be_in(const OfRows::Row& row, double share) const {
    return row.excess > 0 && !(row.excess < least_of(share).of_field * smallest_root_);
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
  // What an excess has to reach, in roots of columns and in ulps, to be the worst so far: both are
  // rounded down by more than what FP32 may lose beside it, among normal numbers.
  struct Least {
    float of_field, of_ulp;
  };
  Least least_of(double share) const {
    constexpr double down = 1 - 0x1p-20;
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
  float smallest_root_ = 0;
  double worst_ = 0;  // squared
};

double mean_of(const std::vector<double>& x) {
  double sum = 0;
  for (const double v : x) sum += v;
  return x.empty() ? 0 : sum / static_cast<double>(x.size());
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
  std::vector<Sums> sums(draws_.size(), Sums(format));
  for (OfRows& seen : seen_) seen.rows.resize(rows);
  by_some_rows(base, [&](std::size_t first, std::size_t n) {
    const float* r = of_r(first * cols, n * cols);
    for (std::size_t i = 0; i < n; ++i) {
      const auto [energy, floor] = of_reference(r + i * cols, cols, ulps);
      all_.energy_ += energy;
      all_.floor_[first + i] = floor;
    }
    for (std::size_t k = 0; k < draws_.size(); ++k) {
      const float* x = of_draws[k](first * cols, n * cols);
      for (std::size_t i = 0; i < n; ++i) {
        seen_[k].rows[first + i] =
            sums[k].see<true>(r + i * cols, x + i * cols, cols, column_energy_[k].data());
      }
    }
  });
  for (std::size_t k = 0; k < draws_.size(); ++k) sums[k].tell(seen_[k]);
  all_.field_ = field({});
}

OfRows Expectation::seen_of(const Whole& x, std::optional<std::size_t> skip) const {
  Sums sums(format_);
  OfRows seen{std::vector<OfRows::Row>(reference_.rows)};
  by_rows(reference_, x, [&](std::size_t i, const float* of_r, const float* of_x) {
    if (skip != i) seen.rows[i] = sums.see<false>(of_r, of_x, reference_.cols, nullptr);
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
  const double row_mean = mean_of(f.rows);
  const double column_mean = mean_of(f.columns);
  // The same share for a draw and for a candidate: where nobody errs its field is all that it has.
  const double share = 1 / std::max(static_cast<double>(draws_.size()), 2.0);
  for (double& a : f.rows) a += share * (row_mean - a);
  for (double& b : f.columns) b += share * (column_mean - b);
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
    const double excess = seen.rows[i].excess, size = excess * excess / at_least_tiny(f.rows[i]);
    if (!(size > largest)) continue;
    largest = size;
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
    const double left = vector ? energy : std::max(energy - static_cast<double>(free) * free, 0.0);
    worst_row = std::max(worst_row, left / (f.rows[i] + 0.01 * floor_[i] + tiny));
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
