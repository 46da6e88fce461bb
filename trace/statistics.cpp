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

using Longs = std::int64_t __attribute__((vector_size(8 * doubles)));

constexpr double tiny = std::numeric_limits<double>::min();

// Calls f(reference, difference, how many, index of the first) for eight elements of a row at a
// time; how many is a constant but for the last. Lanes beyond the end hold 0 and 0.
template <class F>
void by_eights(const float* reference, const float* other, std::size_t n, const F& f) {
  const auto at = [&f](const float* r, const float* x, const auto& count, std::size_t j) {
    Doubles wide, others;
    widen(r, wide);
    widen(x, others);
    f(wide, others - wide, count, j);
  };
  std::size_t j = 0;
  for (; j + doubles <= n; j += doubles) {
    at(reference + j, other + j, std::integral_constant<std::size_t, doubles>(), j);
  }
  if (j == n) return;
  std::array<float, doubles> r{}, x{};
  std::copy(reference + j, reference + n, r.begin());
  std::copy(other + j, other + n, x.begin());
  at(r.data(), x.data(), n - j, j);
}

// The ulp of numbers of a format.
struct Ulps {
  double relative;
  Doubles at_zero;
  explicit Ulps(const Format& format)
      : relative(std::ldexp(2.0, -format.precision)),
        at_zero(Doubles{} + format.spacing_at_zero()) {}
  Doubles operator()(const Doubles& x) const {
    const Doubles u = (Doubles)((Longs)x & 0x7ff0000000000000) * relative;
    return u > at_zero ? u : at_zero;
  }
};

// The sums of one row of a difference e; u are the ulps of the reference.
struct RowSums {
  double energy = 0, along = 0, different = 0;
  double free = 0;     // largest min(|e|, u)
  double floor = 0;    // sum of u^2 / 12
  double element = 0;  // largest max(|e| - u, 0)^2 / (field + u^2 / 12)
};

// `row` times columns[j] is the field of element j.
RowSums sums_of(const float* reference, const float* other, std::size_t n, const Ulps& ulps,
                double row, const double* columns) {
  constexpr Doubles lane{0, 1, 2, 3, 4, 5, 6, 7};
  const Doubles least = Doubles{} + tiny;
  Doubles energy{}, along{}, different{}, free{}, floor{};
  Doubles excess2{}, field2 = Doubles{} + 1;  // of each lane's largest ratio: compared crosswise
  by_eights(reference, other, n,
            [&](const Doubles& r, const Doubles& e, const auto& count, std::size_t j) {
              Doubles column{};
              std::memcpy(&column, columns + j, count * sizeof(double));
              const Doubles u = lane < static_cast<double>(count) ? ulps(r) : Doubles{};
              const Doubles size = (Doubles)((Longs)e & 0x7fffffffffffffff);
              const Doubles small = size < u ? size : u;
              const Doubles excess = size - small;
              const Doubles grain = u * u * (1.0 / 12);
              const Doubles field = row * column + grain;
              const Doubles above = field > least ? field : least;
              energy += e * e;
              along += e * r;
              different = e != 0 ? different + 1 : different;
              free = free < small ? small : free;
              floor += grain;
              const Doubles square = excess * excess;
              const auto larger = square * field2 > excess2 * above;
              excess2 = larger ? square : excess2;
              field2 = larger ? above : field2;
            });
  return {total_of(energy), total_of(along), total_of(different),
          largest_of(free), total_of(floor), largest_of(excess2 / field2)};
}

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
  Doubles energy{};
  Reading reading(reference_);
  static_assert(stretch % doubles == 0);  // else lanes would depend on where a stretch ends
  by_stretches(reference_.size(), [&](std::size_t first, std::size_t n) {
    const float* r = reading(first, n);
    by_eights(r, r, n, [&](const Doubles& x, const auto&...) { energy += x * x; });
    return true;
  });
  energy_ = total_of(energy);
  for (const Whole& draw : draws_) {
    std::vector<double> rows(reference_.rows), columns(reference_.cols);
    by_rows(reference_, draw, [&](std::size_t i, const float* r, const float* x) {
      Doubles row{};
      by_eights(r, x, columns.size(),
                [&](const Doubles&, const Doubles& e, const auto& count, std::size_t j) {
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
  const Ulps ulps(format_);
  const bool vector = reference_.cols == 1;  // each element is a row: its field is the row's
  const std::vector<double> ones(vector ? 1 : 0, 1.0);
  const double* columns = vector ? ones.data() : f.columns.data();
  const double share = vector ? 1 : 1 / std::max(f.scale, tiny);
  double norm = 0, along = 0, different = 0, worst_row = 0, worst_element = 0;
  by_rows(reference_, x, [&](std::size_t i, const float* of_r, const float* of_x) {
    if (skip == i) return;
    const RowSums row = sums_of(of_r, of_x, reference_.cols, ulps, f.rows[i] * share, columns);
    norm += row.energy;
    along += row.along;
    different += row.different;
    worst_element = std::max(worst_element, row.element);
    const double left = vector ? row.energy : std::max(row.energy - row.free * row.free, 0.0);
    worst_row = std::max(worst_row, left / (f.rows[i] + 0.01 * row.floor + tiny));
  });
  Sample s{};
  s[0] = std::sqrt(norm);
  s[1] = different / static_cast<double>(std::max<std::size_t>(reference_.size(), 1));
  s[2] = energy_ > 0 ? along / energy_ : 0;
  s[3] = std::sqrt(worst_row);
  s[4] = std::sqrt(worst_element);
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
