#include "trace/pairs.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "trace/store/carried.hpp"

namespace plumb::trace {
namespace {

// The largest of error / tolerance of PyTorch's table for bfloat16.
double worst_close(const float* c, const float* r, std::size_t n) {
  double worst = 0;
  for (std::size_t e = 0; e < n; ++e) {
    const double error = std::fabs(static_cast<double>(c[e]) - r[e]);
    const double allowed = 1e-5 + 1.6e-2 * std::fabs(static_cast<double>(r[e]));
    const bool a_number = std::isfinite(error);  // a NaN is further off than any tolerance
    worst = std::max(worst, a_number ? error / allowed : std::numeric_limits<double>::infinity());
  }
  return worst;
}

// A tensor of two runs; null in one that lacks it.
struct OfBoth {
  const std::string* id;
  const Whole *reference = nullptr, *candidate = nullptr;
};

std::vector<OfBoth> of_both(const Run& reference, const Run& candidate) {
  std::vector<OfBoth> all;
  auto r = reference.values.begin(), c = candidate.values.begin();
  const auto no_r = reference.values.end(), no_c = candidate.values.end();
  while (r != no_r || c != no_c) {
    const int order = r == no_r ? 1 : c == no_c ? -1 : r->first.compare(c->first);
    OfBoth& next = all.emplace_back(OfBoth{order <= 0 ? &r->first : &c->first});
    if (order <= 0) next.reference = &(r++)->second;
    if (order >= 0) next.candidate = &(c++)->second;
  }
  return all;
}

// One tensor of both runs.
class OnePass {
 public:
  explicit OnePass(const ToCompare& asked) : asked_(asked) {}

  Looked look(const OfBoth& tensor) const {
    const auto& [id, r, c] = tensor;
    Looked seen;
    if (r != nullptr && c != nullptr && r->has_shape_of(*c)) {
      look_at_both(*r, *c, seen);
    } else {
      if (r != nullptr) seen.reference = look_at(*r);
      if (c != nullptr) seen.candidate = look_at(*c);
    }
    if (asked_.perturbed != nullptr && r != nullptr) seen.pair.perturbed = perturbed(*id, *r);
    return seen;
  }

 private:
  void look_at_both(const Whole& r, const Whole& c, Looked& seen) const {
    Pair& pair = seen.pair;
    Reading of_r(r), of_c(c);
    const auto compare = [&](std::size_t first, std::size_t n) {
      r.elements->hold_together(first, n, seen.reference.disagreements);
      c.elements->hold_together(first, n, seen.candidate.disagreements);
      add_difference(of_c, of_r, first, n, pair.difference);
      if (asked_.close)
        pair.close = std::max(pair.close, worst_close(of_c(first, n), of_r(first, n), n));
      return true;
    };
    by_stretches(r.size(), compare, asked_.close ? stretch : compared_at_once(r.cols));
    pair.both = true;
    pair.equal = same(pair.difference, r, c);
    if (pair.difference.non_finite == 0) return;
    seen.reference.finite = look_at(r).finite;
    seen.candidate.finite = look_at(c).finite;
  }

  // Infinities may be equal, too.
  static bool same(const Difference& d, const Whole& a, const Whole& b) {
    return d.non_finite > 0 ? equal(a, b) : d.largest == 0;
  }

  std::optional<Pair::Perturbed> perturbed(const std::string& id, const Whole& r) const {
    const auto found = asked_.perturbed->values.find(id);
    if (found == asked_.perturbed->values.end() || !found->second.has_shape_of(r)) return {};
    const Whole& p = found->second;
    const Difference d = difference(p, r);
    return Pair::Perturbed{same(d, p, r), d};
  }

  const ToCompare& asked_;
};

}  // namespace

Pairs compare(Run& reference, Run& candidate, const ToCompare& asked) {
  const std::vector<OfBoth> tensors = of_both(reference, candidate);
  const OnePass pass(asked);
  const auto looked = results<Looked>(asked.hands, tensors.size(),
                                      [&](std::size_t i) { return pass.look(tensors[i]); });
  Pairs pairs;
  std::map<std::string, Shown> of_reference, of_candidate;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto& [id, r, c] = tensors[i];
    pairs.emplace_hint(pairs.end(), *id, looked[i].pair);
    if (r != nullptr) of_reference.emplace_hint(of_reference.end(), *id, looked[i].reference);
    if (c != nullptr) of_candidate.emplace_hint(of_candidate.end(), *id, looked[i].candidate);
  }
  reference.tell(of_reference);
  candidate.tell(of_candidate);
  return pairs;
}

}  // namespace plumb::trace
