#include "trace/together.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

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

std::optional<CommonSlope> common_slope(const std::vector<Measured>& all,
                                        const std::set<std::string>& found) {
  std::vector<std::pair<double, std::string>> slopes;
  for (const Measured& m : all) {
    if (is_gradient(m) && found.contains(m.id))
      slopes.emplace_back(m.candidate[static_cast<std::size_t>(Statistic::scale)], m.id);
  }
  if (slopes.size() < 3) return {};
  std::ranges::sort(slopes);
  CommonSlope common{slopes[slopes.size() / 2].first, 0, slopes.size(), {}, has_clipped(all)};
  for (const auto& [slope, id] : slopes) {
    if (std::fabs(slope - common.slope) <= 0.1 * std::fabs(common.slope)) {
      ++common.near;
    } else {
      common.others.push_back(id);
    }
  }
  return 2 * common.near > common.found ? std::optional(common) : std::nullopt;
}

std::string in_words(const CommonSlope& common) {
  std::string words = fmt::format(
      "{} of {} gradients that are found differ by one slope, {:.2g}: something multiplied all of them",
      common.near, common.found, common.slope);
  if (common.others.empty()) return words;
  if (!common.before_clip)
    words += ", as a clip does where others are wrong (plumb.gradients() before it tells which)";
  words += ". By another: " + common.others.front();
  if (common.others.size() > 1) words += fmt::format(" and {} more", common.others.size() - 1);
  return words;
}

}  // namespace plumb::trace
