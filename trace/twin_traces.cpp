#include "trace/twin_traces.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>

#include "number/outcome.hpp"
#include "number/words.hpp"
#include "trace/beside.hpp"
#include "trace/comparable.hpp"
#include "trace/last_bit.hpp"
#include "trace/store/carried.hpp"
#include "trace/twin_refusals.hpp"
#include "trace/twins_read.hpp"
#include "trace/updates.hpp"

namespace plumb::trace {
namespace {

using Wanted = std::function<bool(const std::string&)>;

class Sorting {
 public:
  // `sums`: of the candidate, where the twins are its own.
  Sorting(const Abouts& about, std::set<std::string> sums, const Run& reference,
          const Run& candidate, const Pairs& pairs, const TwinsRead& twins, const Pattern& exact,
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

  // A gradient below the smallest normal number rounds twice where it is computed larger and then divided.
  bool is_off_near_zero_alone(const std::string& id) const {
    const Difference& d = pairs_.at(id).difference;
    return order_.phase_of(id) == Phase::backward && d.non_finite == 0 &&
           d.largest <= reference_.values.at(id).format.spacing_at_zero();
  }
  // What is made of such gradients rounds otherwise, too, by no more than a rounding of its own.
  bool is_behind_near_zero(const std::string& id) {
    if (!earliest_near_zero_) {
      earliest_near_zero_ = std::numeric_limits<std::size_t>::max();
      for (const auto& [other, tensor] : reference_.values) {
        if (order_(other) < *earliest_near_zero_ && comparable(other) && differs(other) &&
            is_off_near_zero_alone(other)) {
          earliest_near_zero_ = order_(other);
        }
      }
    }
    return *earliest_near_zero_ < order_(id) && order_.phase_of(id) == Phase::backward &&
           pairs_.at(id).difference.relative() <= reference_.values.at(id).format.unit_roundoff();
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
    } else if (!moved && exact_.matches(id) && differs(id) && is_off_near_zero_alone(id)) {
      if (wanted)
        out_.unjudged.push_back({id,
                                 "by the smallest number of its format, as what is divided by a "
                                 "number of ranks may be",
                                 Unjudged::Kind::last_bit});
    } else if (!moved && exact_.matches(id) && differs(id) && is_behind_near_zero(id)) {
      if (wanted)
        out_.unjudged.push_back(
            {id,
             "lies behind gradients below the smallest normal number, which "
             "round otherwise on ranks: scale the loss up, so that there are none",
             Unjudged::Kind::unexplained});
    } else if (!moved && exact_.matches(id)) {
      if (wanted) judged_.emplace(id, false);
      out_.asserted.insert(id);
    } else if (differs(id) && !choice &&
               one_last_bit_apart(reference_.values.at(id), candidate_.values.at(id)) &&
               something_moves_before(id)) {
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
  const TwinsRead& twins_;
  const Pattern& exact_;
  GivenTwins& out_;
  std::map<std::string, bool> judged_;  // with: does a twin move it?
  std::optional<std::size_t> earliest_moving_, earliest_near_zero_;
};

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
    refuse_another_run(reference.manifest, twins[k]->manifest, name_of_twin(k));
  }
  const auto read = std::make_shared<const TwinsRead>(of_reference, twins, hands);
  for (std::size_t k = 0; k < twins.size(); ++k) refuse_another(k, *read, of_reference, about, ids);
  const bool of_candidate = are_of_candidate(twins);
  refuse_copies(*read, candidate, pairs, ids, of_candidate);
  const std::set<std::string> sums =
      of_candidate ? held_in_summands(reference) : std::set<std::string>();
  Sorting(about, sums, of_reference, candidate, pairs, *read, exact, out).run(ids, hands);
  out.far_beyond = [read, &of_reference, &candidate, &pairs](const std::string& id) {
    return !twins_explain(pairs.at(id).difference, *read, of_reference, candidate, id);
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
