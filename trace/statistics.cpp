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

// The sum of u^2 / 12 over a row.
double floor_of(const float* reference, std::size_t n, const Ulps& ulps) {
  Doubles sum{};
  by_groups<lanes>(reference, reference, n, [&](const float* of_r, auto, const auto& count, auto) {
    Floats r;
    std::memcpy(&r, of_r, sizeof r);
    std::array<float, lanes> u{};
    r = ulps(r);
    std::memcpy(u.data(), &r, count * sizeof(float));
    sum += grains(u.data());
    sum += grains(u.data() + doubles);
  });
  return total_of(sum);
}

// The largest max(|e| - u, 0)^2 / (field + u^2 / 12), lane by lane: compared crosswise, so that
// nothing is divided.
class WorstElement {
 public:
  // `row` times columns[j] is the field of element j; u are its ulps.
  void see(const Doubles& e, const float* u, double row, const double* columns, std::size_t count) {
    Doubles wide_u, column{};
    widen(u, wide_u);
    std::memcpy(&column, columns, count * sizeof(double));
    const Doubles size = e < 0 ? -e : e;
    const Doubles excess = size > wide_u ? size - wide_u : Doubles{};
    const Doubles field = row * column + grains(u), least = Doubles{} + tiny;
    const Doubles above = field > least ? field : least;
    const Doubles square = excess * excess;
    const auto larger = square * field_ > excess_ * above;
    excess_ = larger ? square : excess_;
    field_ = larger ? above : field_;
  }
  double squared() const { return largest_of(excess_ / field_); }

 private:
  Doubles excess_{}, field_ = Doubles{} + 1;  // of each lane's largest
};

// What one difference e shows, row by row; u are the ulps of the reference.
class Rows {
 public:
  // A row's share times columns[j] is the field of element j.
  Rows(const Format& format, const std::vector<double>& columns)
      : ulps_(format), columns_(columns), roots_(columns.size() + lanes) {
    for (std::size_t j = 0; j < columns.size(); ++j) roots_[j] = as_float(std::sqrt(columns[j]));
  }

  struct Row {
    double energy;  // sum of e^2
    double free;    // largest min(|e|, u)
  };
  Row see(const float* reference, const float* other, std::size_t n, double share) {
    // In locals and by halves: GCC 12 keeps them in registers, and no sum waits for another.
    Doubles energy{}, energy_high{}, along{}, along_high{};
    Floats free{};
    Ints different{};
    Least least = least_of(share);
    by_groups<lanes>(reference, other, n,
                     [&](const float* of_r, const float* of_x, const auto& count, std::size_t j) {
                       Floats r, x, root;
                       std::memcpy(&r, of_r, sizeof r);
                       std::memcpy(&x, of_x, sizeof x);
                       std::memcpy(&root, &roots_[j], sizeof root);
                       different -= x != r;
                       // Whether |e| or u is larger FP32 says rightly: u is a power of two, and e is
                       // exact up to half of r.
                       const Floats e = x - r;
                       const Floats size = (Floats)((Ints)e & 0x7fffffff), u = ulps_(r);
                       const Floats small = size < u ? size : u;
                       free = free < small ? small : free;
                       const Wide low(of_r, of_x), high(of_r + doubles, of_x + doubles);
                       energy += low.e * low.e;
                       energy_high += high.e * high.e;
                       along += low.e * low.r;
                       along_high += high.e * high.r;
                       const Floats by_field = root * least.of_field, by_ulp = u * least.of_ulp;
                       const Floats excess = size - small,
                                    to_pass = by_field > by_ulp ? by_field : by_ulp;
                       if (!any((excess > 0) & (excess >= to_pass))) return;
                       look_closer(low, high, u, share, j, count);
                       least = least_of(share);
                     });
    along_ += along + along_high;
    different_ += different;
    since_counted_ += n;
    if (since_counted_ >= most_counted) count();
    return {total_of(energy + energy_high), static_cast<double>(largest_of(free))};
  }

  double along() const { return total_of(along_); }
  double different() {
    count();
    return counted_;
  }
  double worst_element() const { return worst_.squared(); }

 private:
  static constexpr std::size_t most_counted = std::size_t(1) << 30;  // that a lane holds surely

  void count() {
    for (std::size_t l = 0; l < lanes; ++l) counted_ += different_[l];
    different_ = Ints{};
    since_counted_ = 0;
  }

  // Infinity times zero would hide what is worse.
  static float as_float(double x) {
    return static_cast<float>(std::min(x, static_cast<double>(std::numeric_limits<float>::max())));
  }

  // What an excess has to reach, in roots of columns and in ulps, to be the worst so far: both are
  // rounded down by more than what FP32 may lose beside it, among normal numbers.
  struct Least {
    float of_field, of_ulp;
  };
  Least least_of(double share) const {
    constexpr double down = 1 - 0x1p-20;
    return {as_float(down * std::sqrt(worst_so_far_ * share)),
            as_float(down * std::sqrt(worst_so_far_ / 12))};
  }

  void look_closer(const Wide& low, const Wide& high, const Floats& ulps, double share,
                   std::size_t first, std::size_t count) {
    std::array<float, lanes> u;
    std::memcpy(u.data(), &ulps, sizeof ulps);
    const double* columns = columns_.data() + first;
    worst_.see(low.e, u.data(), share, columns, std::min<std::size_t>(count, doubles));
    if (count > doubles)
      worst_.see(high.e, u.data() + doubles, share, columns + doubles, count - doubles);
    worst_so_far_ = worst_.squared();
  }

  const Ulps ulps_;
  const std::vector<double>& columns_;
  std::vector<float> roots_;  // of columns_; zeros beyond
  Doubles along_{};
  Ints different_{};
  std::size_t since_counted_ = 0;
  double counted_ = 0;
  WorstElement worst_;
  double worst_so_far_ = 0;  // squared
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
    : reference_(std::move(reference)), format_(format), draws_(std::move(draws)) {
  const Ulps ulps(format_);
  floor_.resize(reference_.rows);
  Doubles energy{};
  by_rows(reference_, [&](std::size_t i, const float* r) {
    floor_[i] = floor_of(r, reference_.cols, ulps);
    Doubles of_row{};
    by_groups<doubles>(r, r, reference_.cols, [&](const float* of_r, auto, auto, auto) {
      Doubles wide;
      widen(of_r, wide);
      of_row += wide * wide;
    });
    energy += of_row;
  });
  energy_ = total_of(energy);
  for (const Whole& draw : draws_) {
    std::vector<double> rows(reference_.rows), columns(reference_.cols);
    by_rows(reference_, draw, [&](std::size_t i, const float* r, const float* x) {
      Doubles row{};
      by_groups<doubles>(
          r, x, columns.size(),
          [&](const float* of_r, const float* of_x, const auto& count, std::size_t j) {
            const Doubles e = Wide(of_r, of_x).e;
            Doubles column{};
            std::memcpy(&column, &columns[j], count * sizeof(double));
            column += e * e;
            std::memcpy(&columns[j], &column, count * sizeof(double));
            row += e * e;
          });
      rows[i] = total_of(row);
    });
    row_energy_.push_back(std::move(rows));
    column_energy_.push_back(std::move(columns));
  }
}

Draws::Field Draws::field(std::optional<std::size_t> without) const {
  Field f{std::vector<double>(reference_.rows), std::vector<double>(reference_.cols), 0};
  double n = 0;
  for (std::size_t k = 0; k < draws_.size(); ++k) {
    if (without == k) continue;
    ++n;
    for (std::size_t i = 0; i < f.rows.size(); ++i) f.rows[i] += row_energy_[k][i];
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

Sample Draws::measured(const Whole& x, const Field& f, std::optional<std::size_t> skip) const {
  const bool vector = reference_.cols == 1;  // each element is a row: its field is the row's
  const std::vector<double> ones(vector ? 1 : 0, 1.0);
  const double share = vector ? 1 : 1 / std::max(f.scale, tiny);
  Rows rows(format_, vector ? ones : f.columns);
  double norm = 0, worst_row = 0;
  by_rows(reference_, x, [&](std::size_t i, const float* of_r, const float* of_x) {
    if (skip == i) return;
    const auto [energy, free] = rows.see(of_r, of_x, reference_.cols, f.rows[i] * share);
    norm += energy;
    const double left = vector ? energy : std::max(energy - free * free, 0.0);
    worst_row = std::max(worst_row, left / (f.rows[i] + 0.01 * floor_[i] + tiny));
  });
  Sample s{};
  s[0] = std::sqrt(norm);
  s[1] = rows.different() / static_cast<double>(std::max<std::size_t>(reference_.size(), 1));
  s[2] = energy_ > 0 ? rows.along() / energy_ : 0;
  s[3] = std::sqrt(worst_row);
  s[4] = std::sqrt(rows.worst_element());
  return s;
}

Sample Draws::of_draw(std::size_t k) const { return measured(draws_[k], field(k), {}); }

Sample Draws::of(const Whole& candidate, std::optional<std::size_t> without_row) const {
  return measured(candidate, field({}), without_row);
}

double Draws::relative_noise() const {
  double sum = 0;
  for (const auto& rows : row_energy_) {
    for (const double a : rows) sum += a;
  }
  const double mean = draws_.empty() ? 0 : sum / static_cast<double>(draws_.size());
  return energy_ > 0 ? std::sqrt(mean / energy_) : std::numeric_limits<double>::infinity();
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
