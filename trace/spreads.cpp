#include "trace/spreads.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "trace/graph.hpp"
#include "trace/levels.hpp"

namespace plumb::trace {
namespace {

constexpr double cap_of_log = 7;  // degrees of a log statistic's t, at most
constexpr double cap_of_prior = 60;
constexpr double degrees_of_few = 3;  // where some twins show nothing
// A run's norm may differ from what its twins foretell by so much, beyond all scatter.
constexpr double foretold = 0.04;
constexpr double degrees_of_learnt = 12;
constexpr std::size_t draws_of_a_field = 4;

double floor_of(Statistic s) {
  if (s == Statistic::row) return 0.01;
  return s == Statistic::element ? 0.03 : 0.003;
}

double value_of(const Sample& sample, Statistic s) { return sample[static_cast<std::size_t>(s)]; }

// A (tensor, statistic) before pooling.
struct Row {
  std::size_t tensor;
  double mean;      // of the logs; 0 for scale
  double variance;  // own estimate, floor included
};

// Variances per kind, shrunk to the class (twins.md N2): (w mean + 2 exp(mean of logs + 1.27/nu)) /
// (w + 2).
std::vector<double> pooled(const std::vector<Row>& rows, const std::vector<Measured>& all,
                           double nu) {
  struct Kind {
    double sum = 0, n = 0;
  };
  std::map<std::string, Kind> kinds;
  std::map<int, Kind> classes;  // of logarithms
  for (const Row& row : rows) {
    Kind& kind = kinds[all[row.tensor].kind];
    kind.sum += row.variance;
    ++kind.n;
    Kind& group = classes[all[row.tensor].group];
    group.sum += std::log(std::max(row.variance, 1e-14));
    ++group.n;
  }
  std::vector<double> result;
  for (const Row& row : rows) {
    const Kind& kind = kinds[all[row.tensor].kind];
    const Kind& group = classes[all[row.tensor].group];
    const double w = nu * kind.n;
    result.push_back((w * kind.sum / kind.n + 2 * std::exp(group.sum / group.n + 1.27 / nu)) /
                     (w + 2));
  }
  return result;
}

struct Prior {
  double variance = 1;
  double degrees = 1;
};

// Scaled F prior of variances q on nu degrees (twins.md N3, [Smy04]).
Prior prior_of(const std::vector<double>& q, double nu) {
  double n = 0, sum = 0, squares = 0;
  for (const double v : q) {
    if (v <= 0) continue;
    const double e = std::log(v) - digamma(nu / 2) + std::log(nu / 2);
    ++n;
    sum += e;
    squares += e * e;
  }
  if (n < 3) return {};
  const double mean = sum / n;
  const double excess = (squares - sum * mean) / (n - 1) - trigamma(nu / 2);
  if (excess <= 1e-3) return {std::exp(mean), cap_of_prior};  // as good as infinite: capped
  const double d0 = std::min(2 * inverse_trigamma(excess), cap_of_prior);
  return {std::exp(mean + digamma(d0 / 2) - std::log(d0 / 2)), d0};
}

// Moderated nulls for all live rows of one statistic (twins.md N4, N5).
void moderate(const std::vector<Row>& rows, const std::vector<Measured>& all, Statistic s,
              double nu, std::vector<Null>& out) {
  const std::vector<double> kind = pooled(rows, all, nu);
  std::vector<double> q;
  for (std::size_t i = 0; i < rows.size(); ++i) q.push_back(rows[i].variance / kind[i]);
  const Prior prior = prior_of(q, nu);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double variance =
        (prior.degrees * prior.variance * kind[i] + nu * rows[i].variance) / (prior.degrees + nu);
    Null null{rows[i].tensor, s, Case::live, rows[i].mean, std::sqrt(variance)};
    null.degrees = prior.degrees + nu;
    if (s != Statistic::scale) null.degrees = std::min(null.degrees, cap_of_log);
    out.push_back(null);
  }
}

using DrawsOf = std::vector<Sample>;

// The cases that need no null from pooling (twins.md N6); returns nothing for a live row.
std::optional<Null> special(const Measured& m, const DrawsOf& draws, std::size_t index,
                            Statistic s) {
  const auto shows = [](const Sample& x) { return value_of(x, Statistic::norm) > 0; };
  if (std::ranges::none_of(draws, shows)) {
    return Null{index, s, m.touched ? Case::undecidable : Case::bitwise};
  }
  if (s == Statistic::scale) {
    if (m.noise > 0.5) return Null{index, s, Case::refused};
    return {};
  }
  double largest = 0;
  bool all_positive = true;
  for (const Sample& draw : draws) {
    largest = std::max(largest, value_of(draw, s));
    all_positive = all_positive && value_of(draw, s) > 0;
  }
  if (all_positive) return {};
  // Where no twin shows the statistic at all there is no size to compare with.
  if (largest == 0) return Null{index, s, Case::undecidable};
  return Null{index, s, Case::few, std::log(largest), 1, degrees_of_few};
}

Row logs_of(const Measured& m, const DrawsOf& draws, std::size_t index, Statistic s) {
  const double n = static_cast<double>(draws.size());
  double sum = 0, squares = 0;
  for (const Sample& draw : draws) sum += std::log(value_of(draw, s));
  for (const Sample& draw : draws) {
    const double d = std::log(value_of(draw, s)) - sum / n;
    squares += d * d;
  }
  const double floor = floor_of(s);
  double variance = n > 1 ? squares / (n - 1) : 0;
  if (s == Statistic::mismatch) {
    const double share = std::exp(sum / n);
    variance = std::max(variance, (1 - share) / (m.elements * share));
  }
  return {index, sum / n, variance + floor * floor};
}

// What a run shows beside its slope, or the twins' noise if that is larger (twins.md N5). Known to some
// 2^-10 of the slope, for sums are (trace/row_sums.hpp): a slope that drowns it is far beyond any limit.
double own_noise(const Sample& x, double of_twins, double norm_of_reference) {
  const double size = value_of(x, Statistic::norm) / norm_of_reference;
  const double slope = value_of(x, Statistic::scale);
  return std::sqrt(std::max(size * size - slope * slope, of_twins * of_twins));
}

Row slopes_of(const Measured& m, const DrawsOf& draws, std::size_t index) {
  double squares = 0;
  for (const Sample& draw : draws) {
    const double own = own_noise(draw, m.noise, m.norm_of_reference);
    const double a = value_of(draw, Statistic::scale) / own;
    squares += a * a;
  }
  return {index, 0, squares / static_cast<double>(draws.size())};
}

Row row_of(const Measured& m, const DrawsOf& draws, std::size_t index, Statistic s) {
  return s == Statistic::scale ? slopes_of(m, draws, index) : logs_of(m, draws, index, s);
}

// From the scatter of twins among each other to that of a further run about their mean, or, of
// scale, about zero.
void wider(Null& null, const Measured& m, std::size_t draws, bool candidate) {
  if (null.statistic == Statistic::scale) {
    null.spread *= m.noise;
    null.noise = m.noise;
    null.of_reference = m.norm_of_reference;
    return;
  }
  null.spread *= std::sqrt(1 + 1 / static_cast<double>(draws));
  if (candidate && null.statistic == Statistic::norm) {
    null.spread = std::hypot(null.spread, foretold);
  }
}

std::vector<Null> nulls_of(const std::vector<Measured>& all, const std::vector<DrawsOf>& draws,
                           const Learnt* learnt, bool candidate) {
  std::vector<Null> out;
  for (const Statistic s : all_statistics) {
    std::vector<Row> rows;
    double nu = 0;
    const std::size_t first = out.size();
    const bool needs_field = s == Statistic::row || s == Statistic::element;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const bool too_few = all[i].draws.size() < draws_of_a_field;
      if (learnt != nullptr && needs_field && all[i].touched && too_few) continue;
      if (const auto other = special(all[i], draws[i], i, s)) {
        out.push_back(*other);
        continue;
      }
      const Row row = row_of(all[i], draws[i], i, s);
      const auto known = learnt == nullptr ? std::nullopt : learnt->variance(all[i].id, s);
      if (known) {
        out.push_back({i, s, Case::live, row.mean, std::sqrt(*known), degrees_of_learnt});
      } else if (learnt != nullptr) {
        out.push_back({i, s, Case::undecidable});
      } else {
        rows.push_back(row);
        nu = static_cast<double>(draws[i].size()) - (s == Statistic::scale ? 0 : 1);
      }
    }
    if (!rows.empty()) moderate(rows, all, s, nu, out);
    for (std::size_t i = first; i < out.size(); ++i) {
      if (out[i].how != Case::live) continue;
      const std::size_t t = out[i].tensor;
      wider(out[i], all[t], draws[t].size(), candidate);
    }
  }
  return out;
}

}  // namespace

double Null::size_of(const Sample& sample) const { return std::fabs(value_of(sample, statistic)); }

double Null::beyond(const Sample& sample) const {
  const double size = size_of(sample);
  if (statistic != Statistic::scale) return (std::log(size) - center) / spread;
  return size / spread * (noise / own_noise(sample, noise, of_reference));
}

double Null::size_at(double t) const {
  return statistic == Statistic::scale ? t * spread : std::exp(center + t * spread);
}

std::vector<Null> nulls(const std::vector<Measured>& all, const Learnt* learnt) {
  std::vector<DrawsOf> draws;
  for (const Measured& m : all) draws.push_back(m.draws);
  return nulls_of(all, draws, learnt, true);
}

std::vector<Null> nulls_without(std::size_t twin, const std::vector<Measured>& all,
                                const Learnt* learnt) {
  std::vector<DrawsOf> draws;
  for (const Measured& m : all) {
    DrawsOf others;
    for (std::size_t k = 0; k < m.draws.size(); ++k) {
      if (k != twin) others.push_back(m.draws[k]);
    }
    draws.push_back(std::move(others));
  }
  return nulls_of(all, draws, learnt, false);
}

void Learnt::add(const std::vector<Measured>& batch) {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    OfTensor& tensor = of_[without_micro_batch(batch[i].id)];
    for (const Statistic s : all_statistics) {
      if (special(batch[i], batch[i].draws, i, s)) continue;
      Mean& mean = tensor[static_cast<std::size_t>(s)];
      mean.sum += row_of(batch[i], batch[i].draws, i, s).variance;
      ++mean.count;
    }
  }
}

std::optional<double> Learnt::variance(const std::string& id, Statistic s) const {
  const auto found = of_.find(without_micro_batch(id));
  if (found == of_.end()) return {};
  const Mean& mean = found->second[static_cast<std::size_t>(s)];
  if (mean.count == 0) return {};
  return mean.sum / mean.count;
}

double moved_on(const std::vector<Measured>& all, const Learnt& learnt) {
  std::vector<double> ratios;
  double nu = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].draws.size() < 2 || special(all[i], all[i].draws, i, Statistic::norm)) continue;
    const auto variance = learnt.variance(all[i].id, Statistic::norm);
    if (!variance) continue;
    ratios.push_back(logs_of(all[i], all[i].draws, i, Statistic::norm).variance / *variance);
    nu = static_cast<double>(all[i].draws.size()) - 1;
  }
  if (ratios.empty()) return 1;
  const auto middle = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
  std::nth_element(ratios.begin(), middle, ratios.end());
  const double third = 1 - 2 / (9 * nu);  // Wilson and Hilferty's median of chi-square over nu
  return *middle / (third * third * third);
}

}  // namespace plumb::trace
