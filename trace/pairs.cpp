#include "trace/pairs.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
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

// One tensor of both runs.
class OnePass {
 public:
  OnePass(const Run& reference, const Run& candidate, const ToCompare& asked)
      : reference_(reference), candidate_(candidate), asked_(asked) {}

  Looked look(const std::string& id) const {
    const Whole *r = find(reference_, id), *c = find(candidate_, id);
    Looked seen;
    if (r != nullptr && c != nullptr && r->has_shape_of(*c)) {
      look_at_both(*r, *c, seen);
    } else {
      if (r != nullptr) seen.reference = look_at(*r);
      if (c != nullptr) seen.candidate = look_at(*c);
    }
    if (asked_.perturbed != nullptr && r != nullptr) seen.pair.perturbed = perturbed(id, *r);
    return seen;
  }

 private:
  static const Whole* find(const Run& run, const std::string& id) {
    const auto found = run.values.find(id);
    return found == run.values.end() ? nullptr : &found->second;
  }

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
    const Whole* p = find(*asked_.perturbed, id);
    if (p == nullptr || !p->has_shape_of(r)) return {};
    const Difference d = difference(*p, r);
    return Pair::Perturbed{same(d, *p, r), d};
  }

  const Run &reference_, &candidate_;
  const ToCompare& asked_;
};

}  // namespace

Pairs compare(Run& reference, Run& candidate, const ToCompare& asked) {
  std::set<std::string> all;
  for (const Run* run : {&reference, &candidate}) {
    for (const auto& [id, whole] : run->values) all.insert(id);
  }
  const std::vector<std::string> ids(all.begin(), all.end());
  const OnePass pass(reference, candidate, asked);
  const auto looked =
      results<Looked>(asked.hands, ids.size(), [&](std::size_t i) { return pass.look(ids[i]); });
  Pairs pairs;
  std::map<std::string, Shown> of_reference, of_candidate;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    pairs.emplace(ids[i], looked[i].pair);
    if (reference.values.contains(ids[i])) of_reference.emplace(ids[i], looked[i].reference);
    if (candidate.values.contains(ids[i])) of_candidate.emplace(ids[i], looked[i].candidate);
  }
  reference.tell(of_reference);
  candidate.tell(of_candidate);
  return pairs;
}

}  // namespace plumb::trace
