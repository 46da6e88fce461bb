#include "trace/twin_refusals.hpp"

#include <algorithm>

#include "number/outcome.hpp"
#include "number/words.hpp"
#include "trace/comparable.hpp"
#include "trace/whole.hpp"

namespace plumb::trace {
namespace {

[[noreturn]] void no_twin(std::size_t k, const std::string& why, const std::string& advice) {
  throw Failure(name_of_twin(k) + " " + why + "; " + advice);
}

class Copies {
 public:
  Copies(const TwinsRead& twins, const Run& candidate, const Pairs& pairs,
         const std::set<std::string>& ids)
      : twins_(twins), candidate_(candidate), pairs_(pairs), ids_(ids) {}

  void refuse(bool of_candidate) const {
    const std::string whose = of_candidate ? "the candidate" : "the reference",
                      other_run = of_candidate ? "the reference" : "the candidate";
    const std::size_t n = twins_.runs().size();
    std::size_t still = 0;
    for (std::size_t k = 0; k < n; ++k) still += is_still(k) ? 1 : 0;
    if (still == n) return;  // nothing is split
    for (std::size_t k = 0; k < n; ++k) {
      if (is_still(k)) {
        no_twin(k, "is " + whose + ", bit by bit, and other twins are not",
                "make each with roundings of its own");
      }
      if (is_candidate(k)) no_twin(k, "is " + other_run + ", bit by bit", "make twins of " + whose);
      for (std::size_t other = 0; other < k; ++other) {
        if (!are_alike(k, other)) continue;
        no_twin(k, "is " + name_of_twin(other) + ", bit by bit",
                "make each with roundings of its own");
      }
    }
  }

 private:
  bool is_still(std::size_t k) const {
    return std::ranges::none_of(ids_, [&](const auto& id) { return twins_.moves(k, id); });
  }
  // Only numbers that both have otherwise than the reference have to be looked at.
  bool is_candidate(std::size_t k) const {
    return std::ranges::all_of(ids_, [&](const auto& id) {
      const bool moves = twins_.moves(k, id);
      if (moves == pairs_.at(id).equal) return false;
      return !moves || equal(twins_.runs()[k].values.at(id), candidate_.values.at(id));
    });
  }
  bool are_alike(std::size_t a, std::size_t b) const {
    return std::ranges::all_of(ids_, [&](const auto& id) {
      const bool moves = twins_.moves(a, id);
      if (moves != twins_.moves(b, id)) return false;
      return !moves || equal(twins_.runs()[a].values.at(id), twins_.runs()[b].values.at(id));
    });
  }

  const TwinsRead& twins_;
  const Run& candidate_;
  const Pairs& pairs_;
  const std::set<std::string>& ids_;
};

}  // namespace

void refuse_another(std::size_t k, const TwinsRead& twins, const Run& reference,
                    const Abouts& about, const std::set<std::string>& ids) {
  const Run& twin = twins.runs()[k];
  for (const auto* findings : {&twin.findings, &twin.not_finite}) {
    const auto& of_reference =
        findings == &twin.findings ? reference.findings : reference.not_finite;
    for (const Finding& f : *findings) {
      if (std::ranges::find(of_reference, f.id, &Finding::id) != of_reference.end()) continue;
      no_twin(k, "is not whole: '" + f.id + "' " + f.detail, "make it again");
    }
  }
  for (const std::string& id : ids) {
    const auto found = twin.values.find(id);
    if (found == twin.values.end()) no_twin(k, "lacks '" + id + "'", "trace all alike");
    const Whole &t = found->second, &r = reference.values.at(id);
    if (!t.has_shape_of(r)) {
      no_twin(k,
              "holds '" + id + "' as " + size_of(t.rows, t.cols) + ", the reference as " +
                  size_of(r.rows, r.cols),
              "make twins of the reference's own step");
    }
    if (t.format == r.format) continue;
    no_twin(k,
            "holds '" + id + "' in " + std::string(t.format.name) + ", the reference in " +
                std::string(r.format.name),
            "trace all alike");
  }
  for (const auto& [id, says] : about) {
    const bool both = twin.values.contains(id) && reference.values.contains(id);
    if (says.role != Role::given || !both || !twins.moves(k, id)) continue;
    no_twin(k, "starts from another '" + id + "' than the reference",
            "make twins of the same weights and data");
  }
}

void refuse_copies(const TwinsRead& twins, const Run& candidate, const Pairs& pairs,
                   const std::set<std::string>& ids, bool of_candidate) {
  Copies(twins, candidate, pairs, ids).refuse(of_candidate);
}

}  // namespace plumb::trace
