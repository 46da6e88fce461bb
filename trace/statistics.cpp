#include "trace/statistics.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace plumb {
namespace {

constexpr double tiny = std::numeric_limits<double>::min();

// ulp of a float in the format, from its exponent bits.
double ulp_of(float x, const Format& format, double at_zero) {
  const float power = std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0x7f800000U);
  return std::max(static_cast<double>(power) * std::ldexp(2.0, -format.precision), at_zero);
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

Draws::Draws(const Tensor& reference, const Format& format, std::vector<const Tensor*> draws)
    : reference_(reference), format_(format), draws_(std::move(draws)) {
  for (const float r : reference.values) energy_ += static_cast<double>(r) * r;
  for (const Tensor* draw : draws_) {
    std::vector<double> rows(reference.rows), columns(reference.cols);
    for (std::size_t i = 0; i < reference.rows; ++i) {
      for (std::size_t j = 0; j < reference.cols; ++j) {
        const double d = static_cast<double>((*draw)(i, j)) - reference(i, j);
        rows[i] += d * d;
        columns[j] += d * d;
      }
    }
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
  for (double& a : f.rows) a = (a * n + row_mean) / (n + 1);
  for (double& b : f.columns) b = (b * n + column_mean) / (n + 1);
  return f;
}

Sample Draws::measured(const Tensor& x, const Field& f, std::optional<std::size_t> skip) const {
  const double at_zero = format_.spacing_at_zero();
  const bool vector = reference_.cols == 1;
  double norm = 0, along = 0, different = 0, worst_row = 0, worst_element = 0;
  for (std::size_t i = 0; i < reference_.rows; ++i) {
    if (skip == i) continue;
    const float* r = reference_.row(i);
    const float* v = x.row(i);
    double energy = 0, free = 0, floor = 0;
    for (std::size_t j = 0; j < reference_.cols; ++j) {
      const double u = ulp_of(r[j], format_, at_zero);
      floor += u * u / 12;
      const double e = static_cast<double>(v[j]) - r[j];
      if (e == 0) continue;
      ++different;
      const double size = std::fabs(e);
      energy += e * e;
      along += e * r[j];
      free = std::max(free, std::min(size, u));
      if (size <= u * (1 + 1e-9)) continue;
      const double field =
          (vector ? f.rows[i] : f.rows[i] * f.columns[j] / std::max(f.scale, tiny));
      const double excess = size - u;
      worst_element = std::max(worst_element, excess * excess / (field + u * u / 12));
    }
    norm += energy;
    const double left = vector ? energy : std::max(energy - free * free, 0.0);
    worst_row = std::max(worst_row, left / (f.rows[i] + 0.01 * floor + tiny));
  }
  Sample s{};
  s[0] = std::sqrt(norm);
  s[1] = different / static_cast<double>(std::max<std::size_t>(reference_.size(), 1));
  s[2] = energy_ > 0 ? along / energy_ : 0;
  s[3] = std::sqrt(worst_row);
  s[4] = std::sqrt(worst_element);
  return s;
}

Sample Draws::of_draw(std::size_t k) const { return measured(*draws_[k], field(k), {}); }

Sample Draws::of(const Tensor& candidate, std::optional<std::size_t> without_row) const {
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

TopRow top_row(const Tensor& a, const Tensor& b) {
  TopRow top;
  double all = 0, largest = 0;
  for (std::size_t i = 0; i < a.rows; ++i) {
    double energy = 0;
    for (std::size_t j = 0; j < a.cols; ++j) {
      const double d = static_cast<double>(a(i, j)) - b(i, j);
      energy += d * d;
    }
    all += energy;
    if (energy > largest) {
      largest = energy;
      top.row = i;
    }
  }
  top.share = all > 0 ? largest / all : 0;
  return top;
}

}  // namespace plumb
