#include "trace/together.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "trace/levels.hpp"

namespace plumb::trace {
namespace {

bool is_gradient(const Measured& m) {
  return std::ranges::any_of(std::array{"/grad", ".grad", "/main_grad"},
                             [&](const char* end) { return m.id.ends_with(end); });
}

double scale_of(const Sample& sample) { return sample[static_cast<std::size_t>(Statistic::scale)]; }

// Slopes of twins, and of the reference, which has none.
struct Slopes {
  explicit Slopes(const std::vector<double>& of_twins) : k(static_cast<double>(of_twins.size())) {
    for (const double s : of_twins) mean += s / (k + 1);
    double around = mean * mean;
    for (const double s : of_twins) {
      size += s * s / k;
      around += (s - mean) * (s - mean);
    }
    size = std::sqrt(size);
    spread = std::sqrt(around / k * (1 + 1 / (k + 1)));
  }
  double t(double slope) const {
    return std::min(std::fabs(slope) / size, std::fabs(slope - mean) / spread);
  }
  double allowed(double t) const { return std::max(t * size, std::fabs(mean) + t * spread); }

  double k, mean = 0, size = 0, spread = 0;
};

}  // namespace

std::optional<Together> gradients_together(const std::vector<Measured>& all, double chance) {
  std::size_t twins = 0;
  for (const Measured& m : all) twins = std::max(twins, m.draws.size());
  std::vector<double> of_twins(twins, 0.0);
  double energy = 0, largest = -1;
  Together seen;
  for (const Measured& m : all) {
    if (!is_gradient(m)) continue;
    const double part = m.norm_of_reference * m.norm_of_reference;
    energy += part;
    seen.slope += part * scale_of(m.candidate);
    for (std::size_t k = 0; k < m.draws.size(); ++k) of_twins[k] += part * scale_of(m.draws[k]);
    if (part <= largest) continue;
    largest = part;
    seen.largest = m.id;
  }
  constexpr auto moves = [](double s) { return s != 0; };
  if (std::ranges::count_if(of_twins, moves) < 3 || !std::isfinite(seen.slope)) return {};
  seen.slope /= energy;
  for (double& s : of_twins) s /= energy;
  const Slopes slopes(of_twins);
  seen.p = 2 * student_tail(slopes.t(seen.slope), slopes.k);
  seen.allowed = slopes.allowed(student_quantile(chance / 2, slopes.k));
  return seen;
}

}  // namespace plumb::trace
