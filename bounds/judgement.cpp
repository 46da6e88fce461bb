#include "bounds/judgement.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace plumb::bounds {
namespace {

constexpr std::size_t samples = 65536;
constexpr double infinite = std::numeric_limits<double>::infinity();

}  // namespace

Judgement::Judgement(std::size_t elements, const Format& output, double lambda)
    : lambda_(lambda), stride_((elements / samples) | 1) {
  const double eps = 2 * output.unit_roundoff();
  rtol_ = {0, eps};
  for (const double times : {4.0, 16.0, 256.0, 4096.0}) {
    if (times * eps < 0.05) rtol_.push_back(times * eps);
  }
  atol_.resize(rtol_.size());
}

// The exponent and the first five bits behind it: 32 bins an octave.
std::size_t Judgement::bin_of(double ratio) {
  if (ratio == 0) return 0;
  if (ratio <= 0x1p-32) return 1;
  if (!(ratio < 0x1p32)) return bins - 1;
  // The largest number of a bin is its edge: one step down puts it there.
  const auto bits = std::bit_cast<std::uint64_t>(ratio) - 1;
  return static_cast<std::size_t>((bits >> 47) - (std::bit_cast<std::uint64_t>(0x1p-32) >> 47)) + 1;
}

double Judgement::upper_edge(std::size_t bin) {
  if (bin == 0) return 0;
  if (bin == bins - 1) return infinite;
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(0x1p-32) +
                               (static_cast<std::uint64_t>(bin) << 47));
}

void Judgement::add(std::size_t element, double found, double value, double bound, double bias) {
  const double limit = lambda_ * bound;
  const double error = std::fabs(found - value - bias);
  const bool finite = std::isfinite(found);
  // Equal infinities would differ by a NaN.
  const double ratio = found == value && bias == 0 ? 0
                       : !finite                   ? infinite
                       : error == 0                ? 0
                                                   : error / limit;
  ++elements_;
  not_finite_ += finite ? 0 : 1;
  outside_ += ratio > 1 ? 1 : 0;
  ++bins_[bin_of(ratio)];
  const bool had_nan = elements_ > 1 && std::isnan(worst_.found);
  if (elements_ == 1 || (!had_nan && (std::isnan(found) || ratio > worst_.ratio))) {
    worst_ = {element, found, value, bound, bias, ratio};
  }
  count_for_fits(value, limit + std::fabs(bias));
}

void Judgement::count_for_fits(double value, double limit) {
  for (std::size_t i = 0; i < rtol_.size(); ++i) {
    atol_[i] = std::max(atol_[i], limit - rtol_[i] * std::fabs(value));
  }
  if (since_++ % stride_ == 0) samples_.push_back({std::fabs(value), limit});
}

double Judgement::quantile(double share) const {
  const double wanted = share * static_cast<double>(elements_);
  std::uint64_t seen = 0;
  for (std::size_t b = 0; b < bins; ++b) {
    seen += bins_[b];
    if (static_cast<double>(seen) >= wanted) return std::min(upper_edge(b), worst_.ratio);
  }
  return worst_.ratio;
}

std::size_t Judgement::between(double from, double to) const {
  std::size_t n = 0;
  for (std::size_t b = 1; b < bins; ++b) {
    const double edge = upper_edge(b);
    n += edge > from && edge <= to ? bins_[b] : 0;
  }
  return n;
}

std::vector<Fit> Judgement::fits() const {
  std::vector<Fit> all;
  for (std::size_t i = 0; i < rtol_.size() && !samples_.empty(); ++i) {
    std::vector<double> wider;
    for (const auto& [value, limit] : samples_) {
      const double accepted = atol_[i] + rtol_[i] * value;
      wider.push_back(accepted == limit ? 1 : accepted / limit);
    }
    const auto at = [&](double share) {
      const auto k = static_cast<std::ptrdiff_t>(share * static_cast<double>(wider.size() - 1));
      std::nth_element(wider.begin(), wider.begin() + k, wider.end());
      return wider[static_cast<std::size_t>(k)];
    };
    all.push_back({rtol_[i], atol_[i], at(0.5), at(0.99)});
  }
  return all;
}

double lambda_of(std::size_t elements, double delta) {
  return std::sqrt(2 * std::log(2 * static_cast<double>(elements) / delta));
}

}  // namespace plumb::bounds
