#include "trace/check.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "number/words.hpp"
#include "trace/baselines.hpp"
#include "trace/decisions.hpp"
#include "trace/difference.hpp"
#include "trace/replay.hpp"
#include "trace/selection.hpp"
#include "trace/structure.hpp"
#include "trace/twins.hpp"

namespace plumb::trace {
namespace {

// What two runs of one training may say otherwise in their manifests: how they are spread over
// ranks, and in which order their products add.
bool may_differ(const std::string& setting) {
  return setting == "layout" || setting == "any_order";
}

class Check {
 public:
  // `as_recorded`: the reference's values; `r`: the same, given the candidate's choices.
  Check(const Trace& reference, const Values& as_recorded, const Merged& r, const Trace& candidate,
        const Merged& c, const CheckOptions& options)
      : options_(options),
        as_recorded_(as_recorded),
        reference_(reference),
        candidate_(candidate),
        r_(r),
        c_(c),
        select_(options.only, options.skip),
        order_(candidate.graph ? *candidate.graph : Graph()) {}

  Verdict run() {
    refuse_nonsense();
    if (std::ranges::find(options_.rules, "perturbation") != options_.rules.end()) {
      perturbed_ = perturbed_reference();
    }
    refuse_bad_reference();
    note_what_is_alike();
    for (Finding& f : structure_findings(r_, candidate_, c_, options_.allow_unmatched)) {
      if (select_(f.id)) verdict_.findings.push_back(std::move(f));
    }
    for (const std::string& id : shaped_by_layout(candidate_)) {
      if (c_.values.contains(id) && select_(id)) lines_[id] = {id, "", 0, 0};
    }
    for (const auto& [id, tensor] : c_.values) {
      if (!judgeable(id)) continue;
      const Difference d = difference(tensor->values, r_.values.at(id)->values);
      lines_[id] = {id, "", 0, d.relative()};
      if (d.non_finite > 0) not_finite_.insert(id);
    }
    for (const std::string& rule : options_.rules) apply(rule);
    replay_what_was_followed();
    finish();
    return std::move(verdict_);
  }

 private:
  // Only tensors that exist on both sides in one shape can be judged by size.
  bool judgeable(const std::string& id) const {
    const auto c = c_.values.find(id);
    const auto r = r_.values.find(id);
    return c != c_.values.end() && r != r_.values.end() && select_(id) &&
           (order_.made(id) || !candidate_.graph) && c->second->rows == r->second->rows &&
           c->second->cols == r->second->cols;
  }

  // Does the size of its difference say anything? A single number has none to average over, and
  // Adam's first step turns a flipped sign of a tiny gradient into a whole step (theory.md F6).
  bool has_a_size(const std::string& id) const {
    return judgeable(id) && c_.values.at(id)->size() > 1 && order_.phase_of(id) != Phase::optimizer;
  }

  void refuse_nonsense() const {
    refuse_unknown_rules(options_.rules);
    refuse_another_run();
    if (options_.spreads != nullptr) refuse_other_run(*options_.spreads, candidate_.manifest);
    if (std::ranges::none_of(c_.values, [&](const auto& v) { return select_(v.first); })) {
      throw Failure(
          "--only and --skip leave no tensor to judge; list ids with: plumb inspect TRACE");
    }
    const bool needs_graph = std::ranges::any_of(
        options_.rules, [](const auto& rule) { return rule == "twins" || rule == "replay"; });
    if (needs_graph && (!candidate_.graph || !reference_.graph)) {
      throw Failure(std::string(reference_.graph ? "the candidate" : "the reference") +
                    " has no promise (graph.json), so the rules twins and replay cannot "
                    "work; choose the rule flat, depth-law, assert-close or perturbation");
    }
  }

  // Between other configurations or data every tensor differs, and no rounding is to blame.
  void refuse_another_run() const {
    const Manifest& r = reference_.manifest;
    const Manifest& c = candidate_.manifest;
    const auto differ = [](const std::string& what, const std::string& a, const std::string& b) {
      if (a == b) return;
      throw Failure("these runs have not the same " + what + " (reference " + a + ", candidate " +
                    b + "); trace both alike");
    };
    const auto setting = [](const Manifest& m, const std::string& key) {
      const auto found = m.settings.find(key);
      return found == m.settings.end() ? std::string("none") : found->second;
    };
    differ("step", std::to_string(r.step), std::to_string(c.step));
    std::set<std::string> keys;
    for (const Manifest* m : {&r, &c}) {
      for (const auto& [key, value] : m->settings) keys.insert(key);
    }
    for (const std::string& key : keys) {
      if (!may_differ(key)) differ(key, setting(r, key), setting(c, key));
    }
  }

  // What is judged against a reference that is none would be judged by nothing. So it must be whole
  // and finite, and every operation that it promises must give what it holds, as replay says.
  void refuse_bad_reference() const {
    const std::string again = "; the reference cannot be trusted, make it again";
    if (!r_.findings.empty()) {
      const Finding& f = r_.findings.front();
      throw Failure("in the reference '" + f.id + "' is not whole: " + f.detail + again);
    }
    const bool may_be = reference_.graph && left_out(*reference_.graph, r_.values);
    if (!r_.not_finite.empty() && !may_be) {
      const Finding& f = r_.not_finite.front();
      throw Failure("in the reference '" + f.id + "' " + f.detail + again);
    }
    if (!reference_.graph) return;
    options_.progress("is the reference what it promises?");
    const Replayed seen =
        replay(*reference_.graph, as_recorded_, [](const std::string&) { return true; });
    if (seen.findings.empty()) return;
    const Finding& f = seen.findings.front();
    throw Failure("in the reference '" + f.id + "' is not what its inputs make: " + f.detail +
                  again);
  }

  // Nothing is wrong with it, but whoever reads a verdict should know.
  void note_what_is_alike() {
    const bool equal = std::ranges::all_of(c_.values, [&](const auto& v) {
      const auto found = as_recorded_.find(v.first);
      return found != as_recorded_.end() && *found->second == *v.second;
    });
    const auto layout = [](const Manifest& m) {
      const auto found = m.settings.find("layout");
      return found == m.settings.end() ? std::string() : found->second;
    };
    const int ranks_of_reference = reference_.manifest.world_size;
    const int ranks_of_candidate = candidate_.manifest.world_size;
    verdict_.identical = equal && ranks_of_reference == ranks_of_candidate &&
                         layout(reference_.manifest) == layout(candidate_.manifest);
    if (verdict_.identical) {
      verdict_.notes.push_back(
          "the traces are alike in layout and in every bit: a run was compared with itself");
    } else if (equal) {
      verdict_.notes.push_back("the candidate has the reference's bits in every tensor");
    }
    if (ranks_of_reference > 1 && ranks_of_candidate == 1) {
      verdict_.notes.push_back("the reference ran on " + std::to_string(ranks_of_reference) +
                               " ranks, the candidate on one: are they swapped?");
    } else if (ranks_of_reference > 1) {
      verdict_.notes.push_back("the reference ran on " + std::to_string(ranks_of_reference) +
                               " ranks: it is no single-device run");
    }
  }

  void apply(const std::string& rule) {
    options_.progress("rule " + rule);
    if (rule == "twins") return apply_twins();
    if (rule == "replay") return apply_replay();
    for (auto& [id, line] : lines_) {
      if (!has_a_size(id)) continue;
      const Baseline seen = baseline(rule, id, *r_.values.at(id), *c_.values.at(id),
                                     perturbed_.values, options_.margin, candidate_.manifest);
      take(line, rule, seen.ratio);
      verdict_.could_fail = verdict_.could_fail || seen.could_fail;
      if (seen.ratio > 1) verdict_.findings.push_back({id, rule, seen.ratio, seen.detail});
    }
  }

  // Returns the run that says how much a perturbed input moves each tensor: the reference's state
  // and data, but not its bits.
  Merged perturbed_reference() const {
    const std::string make = "make one: plumb train ... --perturb 1 -o P, then --perturbed P";
    if (options_.perturbed == nullptr) {
      throw Failure("rule perturbation needs a second reference; " + make);
    }
    Merged perturbed = merge(*options_.perturbed);
    bool moved = false;
    for (const auto& [id, tensor] : r_.values) {
      const auto found = perturbed.values.find(id);
      const bool fits = found != perturbed.values.end() && found->second->rows == tensor->rows &&
                        found->second->cols == tensor->cols;
      const bool same = fits && found->second->values == tensor->values;
      if (!fits || (!same && !order_.made(id) && candidate_.graph)) {
        throw Failure(
            "the perturbed trace is of another model, state or text than the reference, "
            "first at '" +
            id + "'; " + make);
      }
      moved = moved || !same;
    }
    if (!moved) {
      throw Failure("the perturbed trace is the reference itself, bit by bit; " + make);
    }
    return perturbed;
  }

  void apply_twins() {
    const bool any_order = candidate_.manifest.settings.contains("any_order") ||
                           reference_.manifest.settings.contains("any_order");
    const TwinsJudgement seen = judge_by_twins(
        *reference_.graph, r_, any_order ? in_any_order(*candidate_.graph) : *candidate_.graph, c_,
        [&](const std::string& id) { return lines_.contains(id) && !not_finite_.contains(id); },
        options_);
    verdict_.tests = seen.tests;
    verdict_.vacuous = seen.vacuous;
    verdict_.smallest_scale = seen.smallest_scale;
    verdict_.could_fail = verdict_.could_fail || seen.could_fail;
    for (const auto& [id, worst] : seen.worst) take(lines_.at(id), worst.statistic, worst.ratio);
    twin_findings_ = seen.findings;
    one_row_ = seen.one_row;
    undecidable_ = seen.undecidable;
    followed_ = seen.followed;
    verdict_.flips = seen.flips;
  }

  void apply_replay() {
    const Replayed seen = replay(*candidate_.graph, c_.values,
                                 [&](const std::string& id) { return lines_.contains(id); });
    for (const auto& [id, ratio] : seen.ratios) {
      if (lines_.contains(id)) take(lines_.at(id), "replay", ratio);
    }
    verdict_.could_fail = verdict_.could_fail || !seen.ratios.empty();
    for (const Finding& f : seen.findings) {
      if (lines_.contains(f.id)) verdict_.findings.push_back(f);
    }
    for (const std::string& id : seen.not_judged) verdict_.not_judged.push_back(id);
    replayed_ = seen.ratios;
  }

  // Replays choices and followed roundings whatever the rules: the other rules take them as given.
  void replay_what_was_followed() {
    if (!candidate_.graph || !replayed_.empty()) return;
    std::set<std::string> taken = decisions_of(*candidate_.graph);
    taken.insert(followed_.begin(), followed_.end());
    const Replayed seen = replay(*candidate_.graph, c_.values, [&](const std::string& id) {
      return taken.contains(id) && lines_.contains(id);
    });
    for (const Finding& f : seen.findings) verdict_.findings.push_back(f);
  }

  static void take(Line& line, const std::string& statistic, double ratio) {
    if (line.statistic.empty() || ratio > line.ratio) {
      line.statistic = statistic;
      line.ratio = ratio;
    }
  }

  bool replay_passes(const std::string& id) {
    if (!replayed_.contains(id)) {
      const Replayed again = replay(*candidate_.graph, c_.values,
                                    [&](const std::string& other) { return other == id; });
      replayed_.insert(again.ratios.begin(), again.ratios.end());
    }
    const auto found = replayed_.find(id);
    return found != replayed_.end() && found->second <= 1;
  }

  // A finding of the twins that one row alone causes may be a rare flip at a rounding boundary:
  // then replay decides (twins.md V3). Replay also decides where all twins were silent.
  void finish() {
    for (Finding& f : twin_findings_) {
      const bool rare = one_row_.contains(f.id) && replay_passes(f.id);
      (rare ? verdict_.undecided : verdict_.findings).push_back(std::move(f));
    }
    for (Finding& f : undecidable_) {
      (replay_passes(f.id) ? verdict_.undecided : verdict_.findings).push_back(std::move(f));
    }
    const auto earlier = [&](const Finding& a, const Finding& b) {
      return order_(a.id) < order_(b.id);
    };
    std::stable_sort(verdict_.findings.begin(), verdict_.findings.end(), earlier);
    std::stable_sort(verdict_.undecided.begin(), verdict_.undecided.end(), earlier);
    // Replay and structure say who is wrong by itself; the other statistics only who differs.
    for (const Finding& f : verdict_.findings) {
      if (f.statistic == "replay" || f.statistic == "structure") {
        verdict_.blamed = f.id;
        verdict_.blamed_by = f.statistic;
        break;
      }
    }
    if (verdict_.blamed.empty() && !verdict_.findings.empty()) {
      verdict_.blamed = verdict_.findings.front().id;
      verdict_.blamed_by = verdict_.findings.front().statistic;
    }
    for (auto& [id, line] : lines_) verdict_.lines.push_back(std::move(line));
    std::stable_sort(verdict_.lines.begin(), verdict_.lines.end(),
                     [&](const Line& a, const Line& b) { return order_(a.id) < order_(b.id); });
  }

  const CheckOptions& options_;
  const Values& as_recorded_;
  const Trace& reference_;
  const Trace& candidate_;
  const Merged& r_;
  const Merged& c_;
  Selection select_;
  DataflowOrder order_;
  Merged perturbed_;  // empty without its rule
  Verdict verdict_;
  std::map<std::string, Line> lines_;
  std::set<std::string> not_finite_;  // findings of structure: no statistic holds them
  std::vector<Finding> twin_findings_, undecidable_;
  std::set<std::string> one_row_, followed_;
  std::map<std::string, double> replayed_;
};

}  // namespace

std::vector<std::string> all_rules() {
  return {"twins", "replay", "perturbation", "depth-law", "flat", "assert-close"};
}

void refuse_unknown_rules(const std::vector<std::string>& rules) {
  const auto known = all_rules();
  for (const std::string& rule : rules) {
    if (std::ranges::find(known, rule) != known.end()) continue;
    throw Failure(unknown("rule", rule, known));
  }
}

Verdict check(const Trace& reference, const Merged& merged_reference, const Trace& candidate,
              const Merged& merged_candidate, const CheckOptions& options) {
  if (!reference.graph || !candidate.graph) {
    return Check(reference, merged_reference.values, merged_reference, candidate, merged_candidate,
                 options)
        .run();
  }
  Forced as_chosen = forced(*reference.graph, merged_reference.values, merged_candidate.values);
  Merged conditional = merged_reference;
  conditional.values = std::move(as_chosen.values);
  Verdict verdict =
      Check(reference, merged_reference.values, conditional, candidate, merged_candidate, options)
          .run();
  verdict.decisions = as_chosen.decisions;
  verdict.forced = as_chosen.rows;
  return verdict;
}

Verdict check(const Trace& reference, const Trace& candidate, const CheckOptions& options) {
  return check(reference, merge(reference), candidate, merge(candidate), options);
}

}  // namespace plumb::trace
