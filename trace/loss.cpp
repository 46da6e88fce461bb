#include "trace/loss.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "number/outcome.hpp"
#include "number/rounding.hpp"

namespace plumb::trace {
namespace {

constexpr double u = 0x1p-24;              // of FP32
constexpr double roundings = 4;            // of q: the difference, a mask, the weight, a scale
constexpr double least_normal = 0x1p-126;  // what is smaller may be flushed
constexpr std::size_t at_a_time = std::size_t(1) << 18;

// What an operation makes of numbers, and how far another FP32 may be off.
struct Bounded {
  Matrix<double> value, bound;
};

Outcome<Bounded> made(const char* name, const std::vector<const Matrix<double>*>& inputs,
                      const Format& format, const Machine* machine) {
  const Operation& operation = *find_operation(name);
  const Attributes none;
  ExactRoundings exact;
  Call<double> call{inputs, none, {}, exact};
  std::vector<Matrix<double>> values = operation.value(call);
  ToleranceCall ask{inputs, none, {}, Mode::deterministic, 0, values, {}};
  ask.terms = false;
  Outcome<Tolerance> tolerance = tolerance_by_card(machine, operation, ask, format);
  if (!tolerance) return tolerance.error();
  return Bounded{std::move(values.front()), std::move(tolerance->bound.front())};
}

// p - [v = l] of some rows, and the wider bound of the two ways to make it.
Outcome<Bounded> shares_of(const Matrix<double>& x, const Matrix<double>& labels,
                           const Format& format, const Machine* machine) {
  const Matrix<double> counts(x.rows, 1, 1), one(1, 1, 1);
  const Outcome<Bounded> p = made("softmax", {&x}, format, machine);
  if (!p) return p;
  const Outcome<Bounded> lse = made("cross_entropy", {&x, &labels, &counts, &one}, format, machine);
  if (!lse) return lse;
  const Outcome<Bounded> q =
      made("cross_entropy_grad", {&x, &labels, &counts, &one, &lse->value}, format, machine);
  if (!q) return q;
  Bounded wider = *q;
  for (std::size_t t = 0; t < x.rows; ++t) {
    const double off = std::expm1(lse->bound.values[t]);  // of exp(x - lse)
    for (std::size_t v = 0; v < x.cols; ++v) {
      const double of_sum = p->bound(t, v), of_logarithm = q->bound(t, v) + off * p->value(t, v);
      wider.bound(t, v) = std::max(of_sum, of_logarithm) * (1 + 0x1p-20) +
                          roundings * u * std::fabs(q->value(t, v)) + least_normal;
    }
  }
  return wider;
}

class Fit {
 public:
  Fit(std::size_t cols, const Format& of_logits, const Format& of_gradient, const Machine* machine)
      : cols_(cols), of_logits_(of_logits), of_gradient_(of_gradient), machine_(machine) {}

  void add(std::size_t row, const float* x, const float* g) {
    const auto zero = [](float one) { return one == 0; };
    if (std::all_of(g, g + cols_, zero) || !all_finite(x, cols_) || !all_finite(g, cols_)) return;
    rows_.push_back(row);
    x_.insert(x_.end(), x, x + cols_);
    g_.insert(g_.end(), g, g + cols_);
    if (x_.size() >= at_a_time) judge();
  }

  // Judges the rows that wait.
  void judge() {
    if (rows_.empty() || !fit.refused.empty()) return;
    Matrix<double> x(rows_.size(), cols_), labels(rows_.size(), 1);
    x.values.assign(x_.begin(), x_.end());
    for (std::size_t t = 0; t < rows_.size(); ++t) {
      labels.values[t] = static_cast<double>(label_of(&x_[t * cols_], &g_[t * cols_]));
    }
    const Outcome<Bounded> q = shares_of(x, labels, of_logits_, machine_);
    if (!q) {
      fit.refused = q.error().detail;
      return;
    }
    for (std::size_t e = 0; e < g_.size(); ++e) {
      const double g = g_[e];
      const Format& held = format_held(g, of_gradient_);
      narrow({{rows_[e / cols_], e % cols_},
              g,
              q->value.values[e],
              q->bound.values[e],
              (ulp(g, held) + held.spacing_at_zero()) / 2 + least_normal});
    }
    fit.rows += rows_.size();
    rows_.clear();
    x_.clear();
    g_.clear();
  }

  LossFit fit;

 private:
  // Of a label whose probability is 1 the gradient is zero, and so it may be elsewhere.
  std::size_t label_of(const float* x, const float* g) const {
    const float* least = std::min_element(g, g + cols_);
    const auto place = *least < 0 ? least - g : std::max_element(x, x + cols_) - x;
    return static_cast<std::size_t>(place);
  }

  void narrow(const OfLoss& e) {
    const double g = e.q < 0 ? -e.g : e.g, q = std::fabs(e.q);
    at_least((g - e.half) / (q + e.bound), e);
    const double most = (g + e.half) / (q - e.bound);
    if (q > e.bound && most < fit.most) {
      fit.most = most;
      fit.asks_most = e;
    }
    if (q < e.bound) at_least(most, e);
  }
  void at_least(double w, const OfLoss& e) {
    if (w <= fit.least) return;
    fit.least = w;
    fit.asks_least = e;
  }

  const std::size_t cols_;
  const Format of_logits_, of_gradient_;
  const Machine* machine_;
  std::vector<std::size_t> rows_;
  std::vector<float> x_, g_;  // of rows that wait
};

// How much farther off than any rounding a gradient has to be: by how much another loss may be off, as one
// with a small term beside the cross entropy, where the reference's fits by chance.
double allowance(const LossFit& reference, const LossFit& candidate, double level) {
  return 1 +
         2 * std::log(1 / level) / static_cast<double>(std::min(reference.rows, candidate.rows));
}

// `allowed`: a ratio.
Finding finding_of(const Logits& of, const LossFit& fit, double allowed) {
  const double w = fit.nearest();
  const OfLoss &low = fit.asks_least, &high = fit.asks_most,
               &worst = low.ratio(w) >= high.ratio(w) ? low : high;
  Finding f{of.gradient, "replay", worst.ratio(w) / allowed};
  f.at = worst.at;
  f.value = worst.g;
  f.expected = w * worst.q;
  f.tolerance = worst.tolerance(w) * allowed;
  f.detail = fmt::format(
      "no weight makes it the gradient of a cross entropy of {}, whatever the labels: ({}, {}) asks for {:.9g} "
      "or more, ({}, {}) for {:.9g} or less",
      of.out, low.at.row, low.at.column, fit.least, high.at.row, high.at.column, fit.most);
  return f;
}

}  // namespace

double LossFit::nearest() const {
  double low = std::max(most, 0.0), high = least;  // asks_least is farther off at low
  for (int i = 0; i < 60; ++i) {
    const double w = low + (high - low) / 2;
    (asks_least.ratio(w) > asks_most.ratio(w) ? low : high) = w;
  }
  return high;
}

LossFit fit_of_loss(const Whole& logits, const Whole& gradient, const ReplayOptions& options) {
  Fit fit(logits.cols, logits.format, gradient.format, options.machine);
  by_rows(logits, gradient,
          [&](std::size_t row, const float* x, const float* g) { fit.add(row, x, g); });
  fit.judge();
  return fit.fit;
}

std::string logits_of_gradient(const std::string& id) {
  constexpr std::string_view end = "/grad_out";
  return id.ends_with(end) ? id.substr(0, id.size() - end.size()) + "/out" : "";
}

std::vector<Logits> logits_of(const Run& reference, const Abouts& about) {
  std::map<std::string, std::pair<std::uint64_t, Logits>> first;
  for (const auto& [id, says] : about) {
    const std::string out = logits_of_gradient(id);
    if (out.empty() || !says.order) continue;
    const auto g = reference.values.find(id), x = reference.values.find(out);
    if (g == reference.values.end() || x == reference.values.end()) continue;
    if (!x->second.has_shape_of(g->second) || x->second.cols < 2) continue;
    const std::string micro_batch = id.substr(0, id.size() - without_micro_batch(id).size());
    const auto [place, is_new] = first.try_emplace(micro_batch, *says.order, Logits{out, id});
    if (!is_new && *says.order < place->second.first) place->second = {*says.order, {out, id}};
  }
  std::vector<Logits> all;
  for (const auto& [micro_batch, found] : first) all.push_back(found.second);
  return all;
}

LossesSeen losses(const Run& reference, const Abouts& about, const Run& candidate,
                  const std::function<bool(const std::string&)>& wanted,
                  const ReplayOptions& options, const Hands& hands) {
  std::vector<Logits> all = logits_of(reference, about);
  const auto is_here = [&](const Logits& of) {
    const auto x = candidate.values.find(of.out), g = candidate.values.find(of.gradient);
    return x != candidate.values.end() && g != candidate.values.end() &&
           x->second.has_shape_of(g->second) && wanted(of.gradient);
  };
  std::erase_if(all, [&](const Logits& of) { return !is_here(of); });
  std::vector<LossFit> of_reference(all.size()), of_candidate(all.size());
  by_hands(hands.threads, all.size(), [&](std::size_t i) {
    const auto of = [&](const Run& run) {
      return fit_of_loss(run.values.at(all[i].out), run.values.at(all[i].gradient), options);
    };
    of_reference[i] = of(reference);
    if (of_reference[i].fits()) of_candidate[i] = of(candidate);
  });
  LossesSeen seen;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!of_reference[i].refused.empty() || !of_candidate[i].refused.empty()) {
      seen.not_judged.push_back(
          {all[i].gradient, of_reference[i].refused + of_candidate[i].refused});
    } else if (!of_reference[i].fits()) {
      seen.of_no_loss.push_back(all[i].gradient);
    } else if (of_candidate[i].least > of_candidate[i].most) {
      Finding f = finding_of(all[i], of_candidate[i],
                             allowance(of_reference[i], of_candidate[i], options.false_alarm));
      if (f.ratio > 1) {
        seen.findings.push_back(std::move(f));
      } else {
        seen.not_judged.push_back({all[i].gradient,
                                   "it is hardly more than a rounding off the gradient of a cross "
                                   "entropy, as one of another loss may be"});
      }
    } else if (of_candidate[i].fits()) {  // all rows may be zero: then it says nothing
      seen.fit.push_back(all[i].gradient);
    }
  }
  return seen;
}

}  // namespace plumb::trace
