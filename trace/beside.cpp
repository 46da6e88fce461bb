#include "trace/beside.hpp"

#include <algorithm>
#include <cmath>

#include "trace/levels.hpp"

namespace plumb::trace {

namespace {

bool is_whole(double x) { return x == std::nearbyint(x); }

}  // namespace

double beside(const Whole& reference, const std::vector<Whole>& twins) {
  const auto k = static_cast<double>(twins.size());
  Reading of_r(reference);
  std::vector<Reading> of_twins(twins.begin(), twins.end());
  std::vector<double> mean(stretch), scatter(stretch);
  double away = 0, within = 0, moved = 0;
  std::size_t how_many = 0;
  bool whole = true;  // is each number that moves a whole one, before and after?
  by_stretches(reference.size(), [&](std::size_t first, std::size_t n) {
    const float* r = of_r(first, n);
    std::fill(mean.begin(), mean.end(), 0.0);
    std::fill(scatter.begin(), scatter.end(), 0.0);
    for (Reading& reading : of_twins) {  // differences: small numbers, of which few bits are lost
      const float* t = reading(first, n);
      for (std::size_t e = 0; e < n; ++e) {
        const double d = static_cast<double>(t[e]) - r[e];
        if (whole && d != 0) whole = is_whole(t[e]) && is_whole(r[e]);
        mean[e] += d;
        scatter[e] += d * d;
      }
    }
    for (std::size_t e = 0; e < n; ++e) {
      const double m = mean[e] / k;
      away += m * m;
      within += std::max(scatter[e] - k * m * m, 0.0);
      moved += m != 0 ? static_cast<double>(r[e]) * r[e] : 0;
      how_many += m != 0 ? 1 : 0;
    }
    return true;
  });
  if (away == 0) return 0;
  const bool alike = reference.size() == 1 && within == 0;
  const double own = reference.format.unit_roundoff();
  const double u = alike ? std::max(own, bf16.unit_roundoff()) : own;
  double rounding = u * u * moved / 3;  // (2 u |r|)^2 / 12
  if (whole) rounding = std::max(rounding, static_cast<double>(how_many) / 12);
  const double variance = std::max(within / (k - 1), rounding);
  return std::sqrt(away / (variance * (1 + 1 / k)));
}

std::optional<BesideReference> beside(std::span<const Measured> all,
                                      const std::set<std::string>& without) {
  BesideReference seen;
  std::vector<double> p;
  double harmonic = 0;
  for (const Measured& m : all) {
    if (!m.touched || m.draws.size() < 3 || without.contains(m.id)) continue;
    if (seen.farthest.empty() || m.beside > seen.off) {
      seen.farthest = m.id;
      seen.off = m.beside;
    }
    p.push_back(2 * student_tail(m.beside, static_cast<double>(m.draws.size()) - 1));
    harmonic += 1 / static_cast<double>(p.size());
  }
  if (p.empty()) return {};
  std::ranges::sort(p);
  for (std::size_t j = 0; j < p.size(); ++j) {
    const double share = static_cast<double>(p.size()) / static_cast<double>(j + 1);
    seen.chance = std::min(seen.chance, harmonic * share * p[j]);
  }
  return seen;
}

}  // namespace plumb::trace
