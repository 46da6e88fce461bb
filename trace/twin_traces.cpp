#include "trace/twin_traces.hpp"

#include <algorithm>

#include "number/outcome.hpp"
#include "trace/comparable.hpp"

namespace plumb::trace {
namespace {

using Wanted = std::function<bool(const std::string&)>;

std::string name_of(std::size_t k) { return "twin " + std::to_string(k + 1); }

[[noreturn]] void no_twin(std::size_t k, const std::string& why, const std::string& advice) {
  throw Failure(name_of(k) + " " + why + "; " + advice);
}

bool equal(const Values& a, const Values& b, const std::set<std::string>& ids) {
  return std::ranges::all_of(ids, [&](const auto& id) { return *a.at(id) == *b.at(id); });
}

// A run that goes on from the reference's own state, whole, with every tensor that is judged.
void refuse_another(std::size_t k, const Merged& twin, const Merged& reference, const Abouts& about,
                    const std::set<std::string>& ids) {
  for (const auto* findings : {&twin.findings, &twin.not_finite}) {
    if (findings->empty()) continue;
    const Finding& f = findings->front();
    no_twin(k, "is not whole: '" + f.id + "' " + f.detail, "make it again");
  }
  for (const std::string& id : ids) {
    const auto found = twin.values.find(id);
    if (found == twin.values.end()) no_twin(k, "lacks '" + id + "'", "trace all alike");
    const Tensor &t = *found->second, &r = *reference.values.at(id);
    if (t.rows != r.rows || t.cols != r.cols) {
      no_twin(k,
              "holds '" + id + "' as " + size_of(t.rows, t.cols) + ", the reference as " +
                  size_of(r.rows, r.cols),
              "make twins of the reference's own step");
    }
    const Format &has = twin.formats.at(id), &should = reference.formats.at(id);
    if (has == should) continue;
    no_twin(k,
            "holds '" + id + "' in " + std::string(has.name) + ", the reference in " +
                std::string(should.name),
            "trace all alike");
  }
  for (const auto& [id, says] : about) {
    const auto t = twin.values.find(id), r = reference.values.find(id);
    const bool both = t != twin.values.end() && r != reference.values.end();
    if (says.role != Role::given || !both || *t->second == *r->second) continue;
    no_twin(k, "starts from another '" + id + "' than the reference",
            "make twins of the same weights and data");
  }
}

// Twins that are copies of each other do not scatter, and a candidate beside its own copy does not
// differ.
void refuse_copies(const std::vector<Values>& twins, const Values& reference,
                   const Values& candidate, const std::set<std::string>& ids) {
  const auto is_still = [&](const Values& twin) { return equal(twin, reference, ids); };
  if (std::ranges::all_of(twins, is_still)) return;  // nothing is split
  for (std::size_t k = 0; k < twins.size(); ++k) {
    if (is_still(twins[k])) {
      no_twin(k, "is the reference, bit by bit, and other twins are not",
              "make each with roundings of its own");
    }
    if (equal(twins[k], candidate, ids)) {
      no_twin(k, "is the candidate, bit by bit", "make twins of the reference");
    }
    for (std::size_t other = 0; other < k; ++other) {
      if (!equal(twins[k], twins[other], ids)) continue;
      no_twin(k, "is " + name_of(other) + ", bit by bit", "make each with roundings of its own");
    }
  }
}

class Sorting {
 public:
  Sorting(const Abouts& about, const Merged& candidate, const Pattern& exact, GivenTwins& out)
      : order_(about), about_(about), candidate_(candidate), exact_(exact), out_(out) {}

  // `ids`: those that are judged. What they may be made from is looked for among all.
  void run(const std::set<std::string>& ids) {
    std::set<std::string> roots, all;
    for (const auto& [id, tensor] : out_.drawn.reference.values) {
      all.insert(id);
      if (comparable(id)) sort(id, ids.contains(id), roots);
    }
    for (const std::string& id : maybe_made_from(roots, all, about_)) leave_out(id);
    // In the order of a promise, so that sums over tensors are added as those of plumb's own twins.
    std::vector<std::pair<std::string, bool>> in_order(judged_.begin(), judged_.end());
    std::ranges::stable_sort(in_order, {}, [&](const auto& one) { return order_(one.first); });
    for (const auto& [id, moved] : in_order) {
      Measured m = measured_of(id, moved, out_.drawn.reference, candidate_, out_.drawn.twins);
      m.group = group_of(id, m.group);
      out_.drawn.measured.push_back(std::move(m));
    }
  }

 private:
  // Of what a tensor is a gradient its producer may say in other words than plumb.
  int group_of(const std::string& id, int by_name) const {
    const bool of_weight = id.ends_with("/grad") || id.ends_with(".grad");
    if (of_weight || order_.phase_of(id) == Phase::reduce) {
      return out_.drawn.reference.values.at(id)->cols == 1 ? Group::weight_vector
                                                           : Group::weight_matrix;
    }
    return order_.phase_of(id) == Phase::backward && by_name == Group::forward ? Group::gradient
                                                                               : by_name;
  }
  // Is it computed before the optimizer, and on both sides in one shape?
  bool comparable(const std::string& id) const {
    const auto c = candidate_.values.find(id);
    if (c == candidate_.values.end() || !order_.made(id)) return false;
    const Tensor& r = *out_.drawn.reference.values.at(id);
    return order_.phase_of(id) != Phase::optimizer && c->second->rows == r.rows &&
           c->second->cols == r.cols;
  }
  bool moves(const std::string& id) const {
    const Tensor& r = *out_.drawn.reference.values.at(id);
    return std::ranges::any_of(out_.drawn.twins, [&](const Values& twin) {
      const auto t = twin.find(id);
      return t != twin.end() && *t->second != r;
    });
  }
  bool differs(const std::string& id) const {
    return *candidate_.values.at(id) != *out_.drawn.reference.values.at(id);
  }

  void sort(const std::string& id, bool wanted, std::set<std::string>& roots) {
    const bool moved = moves(id), choice = order_.decides(id);
    if (moved && !choice) {
      if (wanted) judged_.emplace(id, true);
    } else if (!moved && exact_.matches(id)) {
      if (wanted) judged_.emplace(id, false);
      out_.asserted.insert(id);
    } else if (differs(id)) {
      roots.insert(id);
      if (!wanted) return;
      out_.unjudged.push_back({id, choice ? "a choice that fell otherwise, as a rounding may decide"
                                          : "differs though no twin moves it: a sum may be split "
                                            "upstream that its producer did not know (if none is, "
                                            "say so with --exact)"});
    }
  }

  void leave_out(const std::string& id) {
    const auto found = judged_.find(id);
    if (found == judged_.end() || out_.asserted.contains(id)) return;
    judged_.erase(found);
    if (differs(id)) out_.unjudged.push_back({id, "may be made from a tensor that is not judged"});
  }

  DataflowOrder order_;
  const Abouts& about_;
  const Merged& candidate_;
  const Pattern& exact_;
  GivenTwins& out_;
  std::map<std::string, bool> judged_;  // with: does a twin move it?
};

}  // namespace

GivenTwins given_twins(const Trace& reference, const Merged& merged, const Merged& candidate,
                       const std::vector<const Trace*>& twins, const Pattern& exact,
                       const Wanted& wanted) {
  GivenTwins out{{merged, {}, {}, 0, {}}, {}, {}};
  const DataflowOrder order(reference.about);
  std::set<std::string> ids;
  for (const auto& [id, tensor] : candidate.values) {
    if (!wanted(id)) continue;
    if (order.phase_of(id) != Phase::optimizer) {
      ids.insert(id);
    } else if (*tensor != *merged.values.at(id)) {
      out.unjudged.push_back({id, "of the optimizer, which no twin judges"});
    }
  }
  for (std::size_t k = 0; k < twins.size(); ++k) {
    refuse_another_run(reference.manifest, twins[k]->manifest, name_of(k));
    Merged whole = merge(*twins[k]);
    refuse_another(k, whole, merged, reference.about, ids);
    out.drawn.twins.push_back(std::move(whole.values));
  }
  refuse_copies(out.drawn.twins, merged.values, candidate.values, ids);
  Sorting(reference.about, candidate, exact, out).run(ids);
  return out;
}

}  // namespace plumb::trace
