#include "trace/twin_traces.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>

#include "number/outcome.hpp"
#include "number/rounding.hpp"
#include "number/words.hpp"
#include "trace/beside.hpp"
#include "trace/comparable.hpp"
#include "trace/difference.hpp"
#include "trace/store/carried.hpp"
#include "trace/whole.hpp"

namespace plumb::trace {
namespace {

using Wanted = std::function<bool(const std::string&)>;

std::string name_of(std::size_t k) { return "twin " + std::to_string(k + 1); }

[[noreturn]] void no_twin(std::size_t k, const std::string& why, const std::string& advice) {
  throw Failure(name_of(k) + " " + why + "; " + advice);
}

// Twins as they lie in their traces, and what passes over them show.
class Read {
 public:
  Read(const Run& reference, const std::vector<const Trace*>& twins, const Hands& hands)
      : reference_(reference) {
    for (const Trace* twin : twins) runs_.emplace_back(*twin);
    std::set<std::string> all;
    for (const Run& run : runs_) {
      for (const auto& [id, whole] : run.values) all.insert(id);
    }
    const std::vector<std::string> ids(all.begin(), all.end());
    const auto looked =
        results<OfTwins>(hands, ids.size(), [&](std::size_t i) { return look(ids[i]); });
    std::vector<std::map<std::string, Shown>> seen(runs_.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      moved_.emplace(ids[i], looked[i].moved);
      for (std::size_t k = 0; k < runs_.size(); ++k) {
        if (runs_[k].values.contains(ids[i])) seen[k].emplace(ids[i], looked[i].seen[k]);
      }
    }
    for (std::size_t k = 0; k < runs_.size(); ++k) runs_[k].tell(seen[k]);
  }

  const std::vector<Run>& runs() const { return runs_; }
  // Has the twin another number than the reference?
  bool moves(std::size_t k, const std::string& id) const {
    const auto found = moved_.find(id);
    return found != moved_.end() && found->second[k];
  }
  Around around(const std::string& id) const {
    Around one{reference_.values.at(id), {}};
    for (const Run& run : runs_) one.twins.push_back(run.values.at(id));
    return one;
  }

 private:
  OfTwins look(const std::string& id) const {
    OfTwins one{std::vector<Shown>(runs_.size()), std::vector<bool>(runs_.size())};
    const auto r = reference_.values.find(id);
    for (std::size_t k = 0; k < runs_.size(); ++k) {
      const auto t = runs_[k].values.find(id);
      if (t == runs_[k].values.end()) continue;
      const bool comparable = r != reference_.values.end() && r->second.has_shape_of(t->second);
      bool same = comparable;
      std::optional<Reading> of_r;
      if (comparable) of_r.emplace(r->second);
      Reading of_t(t->second);
      by_stretches(t->second.size(), [&](std::size_t first, std::size_t n) {
        const float* x = of_t(first, n);
        t->second.elements->hold_together(first, n, one.seen[k].disagreements);
        one.seen[k].finite = one.seen[k].finite && all_finite(x, n);
        if (same) same = std::equal(x, x + n, (*of_r)(first, n));
        return true;
      });
      one.moved[k] = !same;
    }
    return one;
  }

  const Run& reference_;
  std::vector<Run> runs_;
  std::map<std::string, std::vector<bool>> moved_;
};

// Of 8 bits and fewer the last is a sixteenth of a number or more, and of a scale that is a power of two
// all of it: a factor, which nobody leaves unseen.
bool has_last_bits(const Format& format) { return format.precision >= bf16.precision; }

// From the smaller of two numbers to the next of their format.
double spacing_between(double x, double y, const Format& format) {
  const double low = std::min(std::abs(x), std::abs(y));
  const double spacing = low == 0 ? 0 : std::ldexp(1.0, std::ilogb(low) - format.precision + 1);
  return std::max(spacing, format.spacing_at_zero());
}

// A run that goes on from the reference's own state, as whole as it is, with every tensor that is judged.
void refuse_another(std::size_t k, const Read& twins, const Run& reference, const Abouts& about,
                    const std::set<std::string>& ids) {
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

// Twins that are copies of each other do not scatter, and a candidate beside its own copy does not
// differ.
class Copies {
 public:
  Copies(const Read& twins, const Run& candidate, const Pairs& pairs,
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
        no_twin(k, "is " + name_of(other) + ", bit by bit", "make each with roundings of its own");
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

  const Read& twins_;
  const Run& candidate_;
  const Pairs& pairs_;
  const std::set<std::string>& ids_;
};

class Sorting {
 public:
  // `sums`: of the candidate, where the twins are its own.
  Sorting(const Abouts& about, std::set<std::string> sums, const Run& reference,
          const Run& candidate, const Pairs& pairs, const Read& twins, const Pattern& exact,
          GivenTwins& out)
      : order_(about),
        about_(about),
        sums_(std::move(sums)),
        reference_(reference),
        candidate_(candidate),
        pairs_(pairs),
        twins_(twins),
        exact_(exact),
        out_(out) {}

  // `ids`: those that are judged. What they may be made from is looked for among all.
  void run(const std::set<std::string>& ids, const Hands& hands) {
    std::set<std::string> roots, all;
    for (const auto& [id, tensor] : reference_.values) {
      all.insert(id);
      if (comparable(id)) sort(id, ids.contains(id), roots);
    }
    for (const std::string& id : maybe_made_from(roots, all, about_)) leave_out(id);
    // In the order of a promise, so that sums over tensors are added as those of plumb's own twins.
    std::vector<std::pair<std::string, bool>> in_order(judged_.begin(), judged_.end());
    std::ranges::stable_sort(in_order, {}, [&](const auto& one) { return order_(one.first); });
    out_.drawn.measured = results<Measured>(hands, in_order.size(), [&](std::size_t i) {
      const auto& [id, moved] = in_order[i];
      const Around around = twins_.around(id);
      Measured m = measured_of(id, moved, around, candidate_.values.at(id));
      m.group = group_of(id, m.group);
      if (moved) m.beside = beside(around.reference, around.twins);
      return m;
    });
  }

 private:
  // Of what a tensor is a gradient its producer may say in other words than plumb.
  int group_of(const std::string& id, int by_name) const {
    const bool of_weight = id.ends_with("/grad") || id.ends_with(".grad");
    if (of_weight || order_.phase_of(id) == Phase::reduce) {
      return reference_.values.at(id).cols == 1 ? Group::weight_vector : Group::weight_matrix;
    }
    return order_.phase_of(id) == Phase::backward && by_name == Group::forward ? Group::gradient
                                                                               : by_name;
  }
  // Is it computed before the optimizer, and on both sides in one shape?
  bool comparable(const std::string& id) const {
    return pairs_.at(id).both && order_.made(id) && order_.phase_of(id) != Phase::optimizer;
  }
  bool moves(const std::string& id) const {
    for (std::size_t k = 0; k < twins_.runs().size(); ++k) {
      if (twins_.moves(k, id)) return true;
    }
    return false;
  }
  bool differs(const std::string& id) const { return !pairs_.at(id).equal; }

  // A single number that rounding moves falls to one side in all twins, and in the candidate to the
  // other, as often as not: a loss.
  bool is_one_last_bit(const std::string& id) const {
    const Whole &r = reference_.values.at(id), &c = candidate_.values.at(id);
    if (r.size() != 1 || c.size() != 1) return false;
    const double x = *Reading(r)(0, 1), y = *Reading(c)(0, 1);
    if (!std::isfinite(x) || !std::isfinite(y)) return false;
    // A format that the numbers do not have is no measure of them.
    const Format& format = format_held(y, format_held(x, r.format));
    return has_last_bits(format) && std::abs(x - y) <= spacing_between(x, y, format);
  }
  bool something_moves_before(const std::string& id) {
    if (!earliest_moving_) {
      earliest_moving_ = std::numeric_limits<std::size_t>::max();
      for (const auto& [other, tensor] : reference_.values) {
        if (order_(other) < *earliest_moving_ && comparable(other) && moves(other)) {
          earliest_moving_ = order_(other);
        }
      }
    }
    return *earliest_moving_ < order_(id);
  }

  void sort(const std::string& id, bool wanted, std::set<std::string>& roots) {
    const bool moved = moves(id), choice = order_.decides(id);
    if (moved && !choice) {
      if (wanted) judged_.emplace(id, true);
    } else if (!moved && exact_.matches(id)) {
      if (wanted) judged_.emplace(id, false);
      out_.asserted.insert(id);
    } else if (differs(id) && !choice && is_one_last_bit(id) && something_moves_before(id)) {
      if (wanted)
        out_.unjudged.push_back({id,
                                 "one last bit of a single number, made of tensors that twins move",
                                 Unjudged::Kind::last_bit});
    } else if (differs(id) && sums_.contains(id)) {
      // Ranks rounded its summands, and do so in such twins; where they are added these move.
      if (wanted)
        out_.unjudged.push_back({id,
                                 "is held in summands, and no twin of the candidate moves these",
                                 Unjudged::Kind::unexplained});
    } else if (differs(id)) {
      roots.insert(id);
      if (!wanted) return;
      out_.unjudged.push_back({id,
                               choice ? "a choice that fell otherwise, as a rounding may decide"
                                      : "differs though no twin moves it: a sum may be split "
                                        "upstream that its producer did not know (if none is, "
                                        "say so with --exact)",
                               Unjudged::Kind::unexplained});
    }
  }

  void leave_out(const std::string& id) {
    const auto found = judged_.find(id);
    if (found == judged_.end() || out_.asserted.contains(id)) return;
    judged_.erase(found);
    if (differs(id))
      out_.unjudged.push_back(
          {id, "may be made from a tensor that is not judged", Unjudged::Kind::made_of_such});
  }

  DataflowOrder order_;
  const Abouts& about_;
  const std::set<std::string> sums_;
  const Run &reference_, &candidate_;
  const Pairs& pairs_;
  const Read& twins_;
  const Pattern& exact_;
  GivenTwins& out_;
  std::map<std::string, bool> judged_;  // with: does a twin move it?
  std::optional<std::size_t> earliest_moving_;
};

// The last bit of its largest number; 0 where its format has none.
double last_bit(const Whole& x) {
  float largest = 0;
  Reading read(x);
  by_stretches(x.size(), [&](std::size_t first, std::size_t n) {
    const float* here = read(first, n);
    for (std::size_t e = 0; e < n; ++e) largest = std::max(largest, std::fabs(here[e]));
    return true;
  });
  if (!std::isfinite(largest)) return infinite;
  const Format& format = format_held(largest, x.format);
  return has_last_bits(format) ? ulp(largest, format) : 0;
}

// How many numbers are off by more than four ulps. One last bit of what scales a gradient, as a clip does,
// is two of its square, and roundings behind it two more.
std::size_t many_ulps_off(const Whole& x, const Whole& r) {
  const Format& format = r.format;
  const float relative = std::ldexp(2.0F, -format.precision);
  const auto at_zero = static_cast<float>(format.spacing_at_zero());
  std::size_t many = 0;
  Reading of_x(x), of_r(r);
  by_stretches(r.size(), [&](std::size_t first, std::size_t n) {
    const float *a = of_x(first, n), *b = of_r(first, n);
    for (std::size_t e = 0; e < n; ++e) {
      const float binade = std::bit_cast<float>(std::bit_cast<std::uint32_t>(b[e]) & 0x7f800000U);
      many += std::fabs(a[e] - b[e]) > 4 * std::max(binade * relative, at_zero) ? 1 : 0;
    }
    return true;
  });
  return many;
}

// May twins explain how far off what an optimizer made is? As a whole; its worst number, which a share that
// begins a few places too late shows; and how many of its numbers are, which a share that was never updated
// shows where signs turn in others. Ten times as far as the farthest, or as one last bit, which four twins
// may all lack. That accuses nobody. Where a twin does not have it, twins say nothing.
bool explained(const Difference& seen, const Read& twins, const Run& reference,
               const Run& candidate, const std::string& id) {
  constexpr std::size_t far = 10;
  const Whole &r = reference.values.at(id), &x = candidate.values.at(id);
  if (!x.has_shape_of(r)) return true;
  std::size_t many = 1;
  const double bit = last_bit(r);
  double squares = bit * bit, largest = bit;
  for (const Run& twin : twins.runs()) {
    const auto found = twin.values.find(id);
    if (found == twin.values.end() || !found->second.has_shape_of(r)) return true;
    const Difference d = difference(found->second, r);
    squares = std::max(squares, d.squares);
    largest = std::max(largest, static_cast<double>(d.largest));
    many = std::max(many, many_ulps_off(found->second, r));
  }
  return seen.squares <= far * far * squares &&
         static_cast<double>(seen.largest) <= far * largest && many_ulps_off(x, r) <= far * many;
}

}  // namespace

bool is_of_candidate(const Trace& twin) {
  const auto found = twin.manifest.may_differ.find("twin of");
  return found != twin.manifest.may_differ.end() && found->second == "the candidate";
}

bool are_of_candidate(const std::vector<const Trace*>& twins) {
  const auto says = [](const Trace* twin) { return is_of_candidate(*twin); };
  const auto n = static_cast<std::size_t>(std::ranges::count_if(twins, says));
  if (n == 0 || n == twins.size()) return n > 0;
  throw Failure(
      how_many(n, "twin") + " of " + std::to_string(twins.size()) +
      " are runs of the candidate, the others of the reference; give one kind or the other");
}

GivenTwins given_twins(const Trace& reference, const Run& of_reference, const Abouts& about,
                       const Run& candidate, const Pairs& pairs,
                       const std::vector<const Trace*>& twins, const Pattern& exact,
                       const Wanted& wanted, const Hands& hands) {
  GivenTwins out;
  const DataflowOrder order(about);
  std::set<std::string> ids;
  std::vector<std::string> updated;
  for (const auto& [id, tensor] : candidate.values) {
    if (!wanted(id)) continue;
    if (order.phase_of(id) != Phase::optimizer) {
      ids.insert(id);
    } else if (!pairs.at(id).equal) {
      updated.push_back(id);
    }
  }
  for (std::size_t k = 0; k < twins.size(); ++k) {
    refuse_another_run(reference.manifest, twins[k]->manifest, name_of(k));
  }
  const auto read = std::make_shared<const Read>(of_reference, twins, hands);
  for (std::size_t k = 0; k < twins.size(); ++k) refuse_another(k, *read, of_reference, about, ids);
  const bool of_candidate = are_of_candidate(twins);
  Copies(*read, candidate, pairs, ids).refuse(of_candidate);
  const std::set<std::string> sums =
      of_candidate ? held_in_summands(reference) : std::set<std::string>();
  Sorting(about, sums, of_reference, candidate, pairs, *read, exact, out).run(ids, hands);
  out.far_beyond = [read, &of_reference, &candidate, &pairs](const std::string& id) {
    return !explained(pairs.at(id).difference, *read, of_reference, candidate, id);
  };
  std::vector<Unjudged> updates(updated.size());
  by_hands(hands.threads, updated.size(), [&](std::size_t i) {
    const std::string& id = updated[i];
    updates[i] = {id, "of the optimizer, which no twin judges", Unjudged::Kind::of_optimizer};
    if (!out.far_beyond(id)) return;
    updates[i] = {id, "of the optimizer, and far beyond all twins", Unjudged::Kind::unexplained};
  });
  for (Unjudged& u : updates) out.unjudged.push_back(std::move(u));
  out.drawn.read = [read](const std::string& id) { return read->around(id); };
  return out;
}

}  // namespace plumb::trace
