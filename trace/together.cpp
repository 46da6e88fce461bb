#include "trace/together.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "trace/levels.hpp"

namespace plumb::trace {
namespace {

bool is_clipped(const Measured& m) { return m.id.ends_with("/clipped_grad"); }

bool is_gradient(const Measured& m) {
  return std::ranges::any_of(std::array{"/grad", ".grad", "/main_grad"},
                             [&](const char* end) { return m.id.ends_with(end); });
}

// |x|^2 - |r|^2 of a run with these statistics.
double more(const Sample& sample, double norm_of_reference) {
  const double norm = sample[static_cast<std::size_t>(Statistic::norm)],
               scale = sample[static_cast<std::size_t>(Statistic::scale)];
  return 2 * scale * norm_of_reference * norm_of_reference + norm * norm;
}

}  // namespace

std::optional<Together> gradients_together(const std::vector<Measured>& all, double chance,
                                           bool clipped) {
  std::size_t twins = 0;
  for (const Measured& m : all) twins = std::max(twins, m.draws.size());
  std::vector<double> of_twins(twins, 0.0);
  double energy = 0, largest = -1;
  Together seen;
  seen.clipped = clipped;
  for (const Measured& m : all) {
    if (!(clipped ? is_clipped(m) : is_gradient(m))) continue;
    const double part = m.norm_of_reference * m.norm_of_reference;
    energy += part;
    seen.longer += more(m.candidate, m.norm_of_reference);
    for (std::size_t k = 0; k < m.draws.size(); ++k) {
      of_twins[k] += more(m.draws[k], m.norm_of_reference);
    }
    if (part <= largest) continue;
    largest = part;
    seen.largest = m.id;
  }
  constexpr auto moves = [](double s) { return s != 0; };
  if (std::ranges::count_if(of_twins, moves) < 3 || !std::isfinite(seen.longer)) return {};
  const auto of_length = [&](double of_square) { return std::sqrt(1 + of_square / energy) - 1; };
  seen.longer = of_length(seen.longer);
  for (double& s : of_twins) s = of_length(s);
  const auto k = static_cast<double>(twins);
  double size = 0;
  for (const double s : of_twins) size += s * s / k;
  size = std::sqrt(size);
  seen.p = 2 * student_tail(std::fabs(seen.longer) / size, k);
  seen.allowed = size * student_quantile(chance / 2, k);
  return seen;
}

bool has_clipped(const std::vector<Measured>& all) { return std::ranges::any_of(all, is_clipped); }

}  // namespace plumb::trace
