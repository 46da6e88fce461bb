#include "trace/families.hpp"

#include <algorithm>
#include <cmath>

#include "number/outcome.hpp"
#include "trace/finding.hpp"
#include "trace/levels.hpp"

namespace plumb::trace {
namespace {

constexpr std::size_t family_of_few = all_statistics.size();
constexpr std::array degrees_tried{2.5, 3.0,  3.5,  4.0,  5.0,  6.0, 7.0,
                                   8.0, 10.0, 12.0, 16.0, 24.0, 40.0};
// So few residuals say nothing of a tail: then it is as heavy as its degrees allow.
constexpr std::size_t fewest_residuals = 20;

double log_likelihood(const std::vector<double>& t, const Tail& tail) {
  const double v = tail.degrees;
  double sum = 0;
  for (const double x : t) {
    const double z = x / tail.core;
    sum += std::log1p(z * z / v);
  }
  const double each =
      std::lgamma((v + 1) / 2) - std::lgamma(v / 2) - std::log(v) / 2 - std::log(tail.core);
  return each * static_cast<double>(t.size()) - (v + 1) / 2 * sum;
}

// The likeliest core given the degrees, by the EM iteration of a Student's scale.
double core_of(const std::vector<double>& t, double degrees) {
  double square = 0;
  for (const double x : t) square += x * x;
  square *= (degrees - 2) / degrees / static_cast<double>(t.size());
  for (int i = 0; i < 12; ++i) {
    double sum = 0;
    for (const double x : t) sum += (degrees + 1) * x * x / (degrees * square + x * x);
    square *= sum / static_cast<double>(t.size());
  }
  return std::sqrt(square);
}

// p: of the smallest of N unrelated ones q is exponential with mean 1 / N.
double q_of_p(double p) { return -std::log1p(-p); }
double p_of(double q) { return -std::expm1(-q); }
constexpr double most_below_one = 1 - 0x1p-53;

template <class F>
std::vector<double> all_of(const std::vector<double>& from, const F& f) {
  std::vector<double> to;
  for (const double x : from) to.push_back(f(x));
  return to;
}

std::size_t place_of(const Null& null) {
  return null.how == Case::few ? family_of_few : static_cast<std::size_t>(null.statistic);
}

bool in_a_family(const Null& null) { return null.how == Case::live || null.how == Case::few; }

// What the twins show of a family, each judged by the others.
struct Shown {
  std::vector<double> t;            // of all tests
  std::vector<double> largest;      // of each twin
  std::vector<std::size_t> tensor;  // of that
};
using AllShown = std::array<Shown, all_statistics.size() + 1>;

AllShown shown_by_twins(const std::vector<Measured>& all, std::size_t twins, const Learnt* learnt) {
  AllShown shown;
  for (Shown& s : shown) {
    s.largest.assign(twins, -infinite);
    s.tensor.resize(twins);
  }
  for (std::size_t k = 0; k < twins; ++k) {
    for (const Null& null : nulls_without(k, all, learnt)) {
      if (!in_a_family(null)) continue;
      Shown& family = shown[place_of(null)];
      const double t = null.beyond(all[null.tensor].draws[k]);
      if (t > family.largest[k]) {
        family.largest[k] = t;
        family.tensor[k] = null.tensor;
      }
      if (std::isfinite(t)) family.t.push_back(t);
    }
  }
  return shown;
}

Tail tail_of(std::size_t place, const Shown& shown, double degrees) {
  if (place == family_of_few) return {degrees, 1};
  // The spread of mismatch has a floor (of coins) that most tensors do not reach: the core of its t
  // says how low they lie, and nothing of the tail.
  return fitted(shown.t, degrees, static_cast<Statistic>(place) != Statistic::mismatch);
}

std::size_t twins_of(const std::vector<Measured>& all, const Learnt* learnt) {
  std::size_t twins = 0;
  for (const Measured& m : all) twins = std::max(twins, m.draws.size());
  const std::size_t needed = learnt == nullptr ? 3 : 2;
  if (twins == 0 || twins >= needed) return twins;
  throw Failure(
      "two twins do not say how twins scatter: make three or more (better four), or give "
      "stored spreads (--spreads)");
}

}  // namespace

Tail fitted(const std::vector<double>& t, double most_degrees, bool with_core) {
  Tail best{most_degrees, 1};
  if (t.size() < fewest_residuals) return best;
  double likelihood = -infinite;
  const auto consider = [&](double degrees) {
    const Tail tail{degrees, with_core ? core_of(t, degrees) : 1};
    const double l = log_likelihood(t, tail);
    if (l > likelihood) {
      likelihood = l;
      best = tail;
    }
  };
  for (const double degrees : degrees_tried) {
    if (degrees < most_degrees) consider(degrees);
  }
  if (most_degrees > 2) consider(most_degrees);
  return best;
}

double OneMore::chance_by(double sum, double count, double q) {
  return -std::expm1(-count * std::log1p(q / sum));
}

double OneMore::q(double chance) const {
  return sum_of(q_.size()) * std::expm1(-std::log1p(-chance) / count());
}

double OneMore::sum_of(std::size_t without) const {
  double sum = 0, n = 0;
  for (std::size_t k = 0; k < q_.size(); ++k) {
    if (k == without) continue;
    sum += q_[k];
    ++n;
  }
  return std::min(sum, n);
}

// A family is one test at least, so no mean is above 1.
FamilyOfTests::FamilyOfTests(Tail tail, bool two_sided, const std::vector<double>& largest)
    : tail_(tail),
      two_sided_(two_sided),
      law_(all_of(largest, [&](double t) { return q_of(t); })) {}

double FamilyOfTests::q_of(double t) const {
  const double upper = student_tail(t / tail_.core, tail_.degrees);
  return q_of_p(two_sided_ ? 2 * upper : upper);
}

double FamilyOfTests::chance(double t) const { return law_.chance(q_of(t)); }

double FamilyOfTests::limit(double chance) const {
  const double p = std::min(p_of(law_.q(chance)), most_below_one);
  return tail_.core * student_quantile(two_sided_ ? p / 2 : p, tail_.degrees);
}

Tests::Tests(const std::vector<Measured>& all, const Learnt* learnt)
    : nulls_(trace::nulls(all, learnt)) {
  std::array<double, all_statistics.size() + 1> degrees{};
  for (const Null& null : nulls_) {
    if (in_a_family(null)) degrees[place_of(null)] = null.degrees;
  }
  const AllShown shown = shown_by_twins(all, twins_of(all, learnt), learnt);
  for (std::size_t place = 0; place < degrees.size(); ++place) {
    if (degrees[place] == 0) continue;  // no tests
    place_[place] = families_.size();
    families_.emplace_back(tail_of(place, shown[place], degrees[place]),
                           static_cast<Statistic>(place) == Statistic::scale, shown[place].largest);
  }
  if (families_.empty()) return;
  std::vector<double> of_twins;
  std::vector<std::size_t> tensors;
  for (std::size_t k = 0; k < shown.front().largest.size(); ++k) {
    double smallest = 2;
    tensors.push_back(0);
    for (std::size_t place = 0; place < degrees.size(); ++place) {
      if (degrees[place] == 0) continue;
      const double chance = families_[place_[place]].chance_of_twin(k);
      if (chance >= smallest) continue;
      smallest = chance;
      tensors.back() = shown[place].tensor[k];
    }
    of_twins.push_back(q_of_p(smallest));
  }
  anywhere_.emplace(std::move(of_twins));
  for (std::size_t k = 0; k < tensors.size(); ++k) {
    const double chance =
        p_of(static_cast<double>(tensors.size()) * q_of_p(anywhere_->chance_of(k)));
    if (!apart_ || chance < apart_->chance) apart_ = {k, all[tensors[k]].id, chance};
  }
}

double Tests::of_a_family(double chance) const {
  return std::min(p_of(anywhere_->q(chance)), most_below_one);
}

const FamilyOfTests& Tests::family_of(const Null& null) const {
  return families_[place_[place_of(null)]];
}

std::size_t Tests::count() const {
  return static_cast<std::size_t>(std::ranges::count_if(nulls_, judges));
}

double Tests::chance(const Null& null, const Sample& sample) const {
  if (null.size_of(sample) == 0) return 1;
  if (null.how == Case::bitwise) return 0;
  if (!in_a_family(null)) return 1;
  return anywhere_->chance(q_of_p(family_of(null).chance(null.beyond(sample))));
}

TestsAt::TestsAt(const Tests& tests, double chance) : tests_(tests) {
  for (const FamilyOfTests& family : tests.families_)
    limits_.push_back(family.limit(tests.of_a_family(chance)));
}

double TestsAt::limit_of(const Null& null) const { return limits_[tests_.place_[place_of(null)]]; }

double TestsAt::threshold(const Null& null) const {
  if (null.how == Case::bitwise) return 0;
  if (!in_a_family(null)) return infinite;
  return null.size_at(limit_of(null));
}

double TestsAt::standing(const Null& null, const Sample& sample) const {
  if (null.size_of(sample) == 0) return 0;
  if (null.how == Case::bitwise) return infinite;
  if (!in_a_family(null)) return 0;
  const double beyond = null.beyond(sample), allowed = limit_of(null);
  if (allowed <= 0) return beyond > allowed ? infinite : 0;  // of chances near 1
  return std::max(beyond, 0.0) / allowed;
}

}  // namespace plumb::trace
