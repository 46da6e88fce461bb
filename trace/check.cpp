#include "trace/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "bounds/multiply.hpp"
#include "number/words.hpp"
#include "trace/baselines.hpp"
#include "trace/clip.hpp"
#include "trace/decisions.hpp"
#include "trace/loss.hpp"
#include "trace/messages.hpp"
#include "trace/order.hpp"
#include "trace/pairs.hpp"
#include "trace/partial_promise.hpp"
#include "trace/rules.hpp"
#include "trace/selection.hpp"
#include "trace/settle.hpp"
#include "trace/store/carried.hpp"
#include "trace/structure.hpp"
#include "trace/twin_traces.hpp"
#include "trace/twins.hpp"
#include "trace/where.hpp"

namespace plumb::trace {
namespace {

// A tensor that differs and that no rule judged, and how far it is off.
struct LeftOpen {
  Unjudged what;
  double relative = 0;
  bool unexplained() const { return what.kind == Unjudged::Kind::unexplained; }
};

// Those without a reason first, of these the farthest: rounding rarely takes a tensor far.
void tell_what_is_open(std::vector<LeftOpen> open, Verdict& v) {
  for (LeftOpen& one : open) {
    if (std::isnan(one.relative)) one.relative = infinite;  // of a candidate that is no number
  }
  std::ranges::stable_sort(open, [](const LeftOpen& a, const LeftOpen& b) {
    return std::pair(!a.unexplained(), -a.relative) < std::pair(!b.unexplained(), -b.relative);
  });
  const auto count = [&](Unjudged::Kind kind) {
    return static_cast<std::size_t>(
        std::ranges::count(open, kind, [](const LeftOpen& one) { return one.what.kind; }));
  };
  v.unjudged = open.size();
  v.unexplained = count(Unjudged::Kind::unexplained);
  v.of_optimizer = count(Unjudged::Kind::of_optimizer);
  v.last_bits = count(Unjudged::Kind::last_bit);
  if (v.unexplained > 0) v.farthest = {open.front().what.id, open.front().relative};
  std::vector<std::string> told;
  for (const auto& [what, relative] : open)
    told.push_back(fmt::format("{}: by {:.2g} of its size; {}", what.id, relative, what.why));
  v.not_judged.insert(v.not_judged.begin(), told.begin(), told.end());
}

// Two runs, read once for all ways in which they are judged.
class Both {
 public:
  Both(const ToJudge& reference, const ToJudge& candidate, const std::vector<CheckOptions>& ways)
      : r(run_of(reference)), c(run_of(candidate)) {
    const auto asks = [&](const char* rule) {
      return std::ranges::find_if(ways, [&](const auto& way) { return asks_for(way, rule); });
    };
    for (const CheckOptions& way : ways) {
      if (asks_for(way, "perturbation") && way.perturbed != asks("perturbation")->perturbed)
        throw std::invalid_argument("check_each: ways with different perturbed references");
    }
    std::optional<Run> perturbed;
    if (const auto way = asks("perturbation"); way != ways.end() && way->perturbed != nullptr)
      perturbed.emplace(*way->perturbed);
    pairs = compare(r, c,
                    {asks("assert-close") != ways.end(), perturbed ? &*perturbed : nullptr,
                     ways.front().hands});
  }

  Run r, c;
  Pairs pairs;

 private:
  static Run run_of(const ToJudge& subject) {
    return subject.merged != nullptr ? Run(*subject.merged) : Run(subject.trace);
  }
};

class Check {
 public:
  // `given_choices`: is the reference's record changed by the candidate's choices?
  Check(const ToJudge& reference, const ToJudge& candidate, const Both& both, bool given_choices,
        const CheckOptions& options)
      : options_(options),
        given_choices_(given_choices),
        reference_(reference.trace),
        candidate_(candidate.trace),
        merged_r_(reference.merged),
        merged_c_(candidate.merged),
        r_(both.r),
        c_(both.c),
        pairs_(both.pairs),
        select_(options.only, options.skip),
        order_(candidate_.graph ? DataflowOrder(*candidate_.graph)
                                : DataflowOrder(reference_.about)) {
    if (candidate_.graph) {
      replays_ = Replays([this](const auto& wanted) {
        return replay(*candidate_.graph, *merged_c_, wanted, by_card());
      });
    } else if (!reference_.graph) {
      told_.emplace(PartialPromise::Told{r_, reference_.about},
                    PartialPromise::Told{c_, candidate_.about});
      replays_ = Replays([this](const auto& wanted) {
        return told_->replayed(wanted, by_card(), options_.hands);
      });
    }
  }
  Check(const Check&) = delete;  // what replays knows where this is

  // At each of these levels of false alarms.
  Judged run(const std::vector<double>& levels) {
    if (merged_r_ == nullptr) refuse_broken(r_, false);
    refuse_unknown_rules(options_.rules);
    if (options_.spreads != nullptr) refuse_other_run(*options_.spreads, candidate_.manifest);
    refuse_nothing_to_judge(c_, select_);
    refuse_rules_without_ground(reference_, candidate_, says_how(), options_);
    if (asks("perturbation")) refuse_no_perturbed(r_, pairs_, order_, options_);
    look_at_structure();
    if (options_.better != nullptr) hold_against_the_better();
    if (candidate_.graph && has_any_rank_order(*candidate_.graph)) {
      verdict_.notes.push_back(
          "the candidate's ranks add in an order that nobody knows: where more than two do, twins "
          "draw one, and bounds hold for every one");
    }
    say_how_twins_multiply();
    if (candidate_.messages && !asks("replay"))
      verdict_.notes.push_back(
          "the candidate's collectives are not judged: the rule replay does so");
    if (const auto& told = candidate_.manifest.settings; told.contains("sketch")) {
      verdict_.notes.push_back("judged are sketches (" + told.at("sketch") +
                               "), and not the tensors: what differs there may be equal here");
    }
    for (const std::string& rule : options_.rules) apply(rule);
    replay_what_was_followed();
    Judged out;
    for (const double level : levels) out.verdicts.push_back(verdict_at(level));
    out.drawn = std::move(drawn_);
    return out;
  }

 private:
  bool asks(const std::string& rule) const { return asks_for(options_, rule); }

  // Has the candidate the reference's bits? Replicas that disagree have not.
  bool equal_bits() const {
    return c_.findings.empty() && !given_choices_ &&
           std::ranges::all_of(c_.values, [&](const auto& v) { return pairs_.at(v.first).equal; });
  }

  // The promise is evaluated here, where products round to nearest.
  void say_how_twins_multiply() {
    const Machine* machine = options_.replay.machine;
    if (!asks("twins") || !options_.given.empty() || machine == nullptr) return;
    if (options_.multiply != nullptr) {
      verdict_.notes.push_back("twins multiply numbers of BF16 as the machine " + machine->id +
                               " does: step by step on its matrix unit");
      return;
    }
    const Fact* rounding = machine->fact("rounding");
    if (rounding == nullptr || rounding->value != "toward_zero") return;
    verdict_.notes.push_back(
        "sums of the machine " + machine->id +
        " are cut toward zero, those of the twins round to nearest: gradients that are kept in FP32 "
        "may be smaller by some 1e-7 of themselves, of which twins know nothing");
  }

  void look_at_structure() {
    Alike seen = alike(reference_, r_, candidate_, equal_bits());
    verdict_.rules = options_.rules;
    verdict_.notes = std::move(seen.notes);
    verdict_.identical = seen.identical;
    ordered_ = seen.ordered;
    for (Finding& f : structure_findings(r_, candidate_, c_, pairs_, options_.allow_unmatched,
                                         reference_.about)) {
      if (select_(f.id)) verdict_.findings.push_back(std::move(f));
    }
    if (std::string said = said_too_early(verdict_.findings); !said.empty())
      verdict_.notes.push_back(std::move(said));
    for (const std::string& id : shaped_by_layout(candidate_)) {
      if (c_.values.contains(id) && select_(id)) lines_[id] = {id, "", 0, 0};
    }
    for (const auto& [id, tensor] : c_.values) {
      if (!judgeable(id)) continue;
      const Difference& d = pairs_.at(id).difference;
      lines_[id] = {id, "", 0, d.relative(), {}, static_cast<double>(d.largest), d.cosine()};
      if (d.non_finite > 0) not_finite_.insert(id);
    }
  }

  // Choices are right or wrong, not near or far.
  void hold_against_the_better() {
    refuse_no_better(reference_.manifest, options_.better->manifest);
    verdict_.accuracies = accuracies(
        Run(*options_.better), r_, c_,
        [&](const auto& id) { return judgeable(id) && !order_.decides(id); }, options_.hands);
    verdict_.notes.push_back(summary(verdict_.accuracies));
    const auto lacks = std::ranges::count_if(c_.values, [&](const auto& v) {
      return judgeable(v.first) && !order_.decides(v.first) &&
             !verdict_.accuracies.contains(v.first);
    });
    if (lacks > 0) {
      verdict_.notes.push_back(fmt::format("the better run lacks {} of the judged tensors", lacks));
    }
  }

  // Only tensors that exist on both sides in one shape can be judged by size.
  bool judgeable(const std::string& id) const {
    const auto pair = pairs_.find(id);
    return pair != pairs_.end() && pair->second.both && select_(id) && order_.made(id);
  }

  // Does the size of its difference say anything? A single number has none to average over, a
  // choice has none, and Adam's first step turns a flipped sign of a tiny gradient into a whole step
  // (theory.md F6).
  bool has_a_size(const std::string& id) const {
    return judgeable(id) && c_.values.at(id).size() > 1 && !order_.decides(id) &&
           order_.phase_of(id) != Phase::optimizer;
  }

  // Does the reference's producer say of any tensor how it was made, or the candidate what ranks sent?
  bool says_how() const { return told_ && (!told_->empty() || candidate_.messages); }

  void apply(const std::string& rule) {
    options_.progress("rule " + rule);
    if (rule == "twins") return apply_twins();
    if (rule == "replay") return apply_replay();
    for (auto& [id, line] : lines_) {
      if (!has_a_size(id)) continue;
      const Baseline seen = baseline(rule, id, pairs_.at(id), options_.margin, candidate_.manifest);
      take(line, rule, seen.ratio);
      verdict_.could_fail = verdict_.could_fail || seen.could_fail;
      if (seen.ratio > 1) verdict_.findings.push_back({id, rule, seen.ratio, seen.detail});
    }
  }

  bool has_statistics(const std::string& id) const {
    return lines_.contains(id) && !not_finite_.contains(id);
  }

  void apply_twins() {
    if (!options_.given.empty()) return apply_given_twins();
    drawn_ = draw(options_.twins);
    verdict_.flips = drawn_->flips;
  }

  Drawn draw(int twins) const {
    const bool any_order = candidate_.manifest.settings.contains("any_order") ||
                           reference_.manifest.settings.contains("any_order");
    const MultiplyScope machines(options_.multiply);
    TwinOptions options = options_;
    options.twins = twins;
    return draw_twins(
        *reference_.graph, *merged_r_,
        any_order ? in_any_order(*candidate_.graph) : *candidate_.graph, *merged_c_,
        [&](const std::string& id) { return has_statistics(id); }, options);
  }

  void apply_given_twins() {
    const bool around_candidate = are_of_candidate(options_.given);
    if (around_candidate) by_twins_ = &r_;
    GivenTwins given = given_twins(
        around_candidate ? candidate_ : reference_, around_candidate ? c_ : r_, *by_twins_, pairs_,
        options_.given, Pattern(options_.exact, "--exact"),
        [&](const std::string& id) { return has_statistics(id) && !left_to_replay(id); },
        options_.hands);
    const std::string whose =
        "the twins are traces of '" + options_.given.front()->manifest.producer + "'";
    verdict_.notes.push_back(
        around_candidate
            ? whose +
                  " and runs of the candidate, with other roundings where its ranks add: they lie "
                  "around it, and the reference is judged by them; what else may round otherwise "
                  "they do not know"
            : whose +
                  ": that they round where the candidate's layout does, and that nothing else is "
                  "split, is its claim, which is not checked");
    for (Unjudged& u : given.unjudged) unjudged_.emplace(u.id, std::move(u));
    asserted_ = std::move(given.asserted);
    drawn_ = std::move(given.drawn);
  }

  // The optimizer's states: twins would judge gradients once more, by squares that have heavy tails.
  bool left_to_replay(const std::string& id) const {
    return told_ && asks("replay") && told_->is_update(id);
  }

  // What ranks sent each other, by what they gave.
  void apply_to_messages() {
    const Replayed seen = judge_messages(*candidate_.messages);
    verdict_.notes.push_back(fmt::format("replay judges {} of the candidate by what its ranks gave",
                                         how_many(seen.ratios.size(), "collective")));
    for (const Finding& f : seen.findings) {
      if (select_(f.id)) verdict_.findings.push_back(f);
    }
    for (const std::string& why : seen.not_judged) verdict_.not_judged.push_back(why);
  }

  // What losses hand on, by their logits. One that fits acquits nothing: its weight may be wrong.
  void apply_to_losses() {
    if (candidate_.manifest.settings.contains("sketch")) return;
    const LossesSeen seen = losses(
        r_, reference_.about, c_,
        [&](const std::string& id) { return has_statistics(id) && !pairs_.at(id).equal; },
        by_card(), options_.hands);
    for (const Finding& f : seen.findings) {
      take(lines_.at(f.id), "replay", f.ratio);
      verdict_.findings.push_back(f);
    }
    for (const std::string& why : seen.not_judged) verdict_.not_judged.push_back(why);
    if (!seen.fit.empty()) {
      verdict_.notes.push_back(fmt::format(
          "{} what a cross entropy makes of its logits, but for a weight", are(seen.fit)));
    }
    if (!seen.of_no_loss.empty()) {
      verdict_.notes.push_back(fmt::format(
          "{} not what a cross entropy makes of its logits, in the reference either: replay does not judge it",
          are(seen.of_no_loss)));
    }
  }

  // Does a producer say that it clipped other gradients than those it traced?
  static bool lacks_clipped(const Trace& trace) {
    return trace.manifest.may_differ.contains("clipped");
  }
  // Gradients behind a clip, by those before it.
  void apply_to_clips() {
    if (candidate_.manifest.settings.contains("sketch")) return;
    std::vector<Run> twins;
    for (const Trace* twin : options_.given) {
      if (by_twins_ == &c_) twins.emplace_back(*twin);  // of the reference
    }
    ClipSeen seen = clips(
        r_, c_, twins, !lacks_clipped(reference_) && !lacks_clipped(candidate_),
        [&](const std::string& id) { return has_statistics(id) && !pairs_.at(id).equal; },
        options_.hands);
    for (Finding& f : seen.findings) {
      take(lines_.at(f.id), "replay", f.ratio);
      verdict_.findings.push_back(std::move(f));
    }
    if (!seen.note.empty()) verdict_.notes.push_back(std::move(seen.note));
  }

  // "a is", "a and 2 more are".
  static std::string are(const std::vector<std::string>& ids) {
    return ids.size() == 1 ? ids.front() + " is"
                           : fmt::format("{} and {} more are", ids.front(), ids.size() - 1);
  }

  void apply_replay() {
    if (candidate_.messages) apply_to_messages();
    if (told_) {
      apply_to_losses();
      apply_to_clips();
    }
    const Replayed seen = replays_.of([&](const auto& id) { return lines_.contains(id); });
    for (const auto& [id, ratio] : seen.ratios) {
      if (lines_.contains(id)) take(lines_.at(id), "replay", ratio);
    }
    if (!told_) verdict_.could_fail = verdict_.could_fail || !seen.ratios.empty();
    for (const Finding& f : seen.findings) {
      if (lines_.contains(f.id)) verdict_.findings.push_back(f);
    }
    for (const std::string& id : seen.not_judged) verdict_.not_judged.push_back(id);
    if (told_) say_what_was_told(seen);
  }

  void say_what_was_told(const Replayed& seen) {
    for (const std::string& why : told_->left_out()) verdict_.not_judged.push_back(why);
    verdict_.notes.push_back(fmt::format(
        "replay judges {} of {}, as producers say how these were made, by the bounds of {}",
        seen.ratios.size(), how_many(lines_.size(), "tensor"),
        options_.replay.machine == nullptr ? "the operations alone"
                                           : "the machine " + options_.replay.machine->id));
    if (const std::size_t n = told_->in_any_rank_order(); n > 0) {
      verdict_.notes.push_back(fmt::format(
          "of {} more than two ranks share the sum; the bounds hold for every order in which they "
          "may add",
          how_many(n, "call")));
    }
    for (const auto& [id, line] : lines_) {
      if (!left_to_replay(id) || seen.ratios.contains(id) || pairs_.at(id).equal) continue;
      unjudged_[id] = {id, "of the optimizer, and could not be replayed",
                       Unjudged::Kind::of_optimizer};
    }
    if (std::ranges::any_of(options_.rules, [](const auto& rule) { return rule != "replay"; }))
      return;
    for (const auto& [id, line] : lines_) {
      if (!pairs_.contains(id) || pairs_.at(id).equal) continue;
      const bool known = seen.ratios.contains(id);
      unjudged_[id] = {
          id, known ? "is made from a tensor that is not judged" : "nobody says how it was made",
          known ? Unjudged::Kind::made_of_such : Unjudged::Kind::unexplained};
    }
  }

  // Replays choices and followed roundings whatever the rules: the other rules take them as given.
  void replay_what_was_followed() {
    if (!candidate_.graph || !replays_.none_yet()) return;
    std::set<std::string> taken = decisions_of(*candidate_.graph);
    if (drawn_) taken.insert(drawn_->followed.begin(), drawn_->followed.end());
    replay_each(taken);
  }

  void replay_each(const std::set<std::string>& taken) {
    const Replayed seen =
        replays_.of([&](const auto& id) { return taken.contains(id) && lines_.contains(id); });
    for (const Finding& f : seen.findings) verdict_.findings.push_back(f);
    for (const std::string& id : seen.not_judged) verdict_.not_judged.push_back(id);
  }

  // What replay is to judge by, at the level of the whole verdict.
  ReplayOptions by_card() const {
    ReplayOptions options = options_.replay;
    options.false_alarm = options_.false_alarm;
    return options;
  }

  static void take(Line& line, const std::string& statistic, double ratio) {
    if (!line.statistic.empty() && ratio <= line.ratio) return;
    line.statistic = statistic;
    line.ratio = ratio;
  }

  Verdict verdict_at(double level) {
    const double sure = level / stricter;
    if (!options_.second_look || !drawn_ || !options_.given.empty()) {
      return verdict_by(drawn_, level, sure);
    }
    Verdict first = verdict_by(drawn_, level_of_first_look(level), sure);
    const std::vector<Finding>& seen = first.findings;
    if (seen.empty() && first.undecided.empty()) return first;
    if (seen.empty() || !std::ranges::all_of(seen, is_by_size_of_twins)) {
      Verdict at_once = verdict_by(drawn_, level, sure);
      at_once.smallest_scale = first.smallest_scale;
      return at_once;
    }
    if (!drawn_again_) look_again();
    Verdict second = verdict_by(drawn_again_, sure, sure);
    second.flips = drawn_again_->flips;
    second.looked_again = true;
    if (second.findings.empty()) {
      second.notes.push_back(fmt::format("by {} twins {} stands out ({} at {}); {} twins acquit it",
                                         options_.twins, first.blamed, first.blamed_by,
                                         chance_of(first), more_twins * options_.twins));
    }
    return second;
  }

  // These twins may follow the candidate where the first did not: replay judges that, too.
  void look_again() {
    drawn_again_ = draw(more_twins * options_.twins);
    std::set<std::string> followed = drawn_again_->followed;
    for (const std::string& id : drawn_->followed) followed.erase(id);
    if (!asks("replay") && !followed.empty()) replay_each(followed);
  }

  static std::string chance_of(const Finding& f) {
    return f.p ? fmt::format("p = {:.1e}", *f.p) : "no twin differs";
  }

  // Of who is blamed.
  static std::string chance_of(const Verdict& v) {
    const auto blamed = std::ranges::find(v.findings, v.blamed, &Finding::id);
    return blamed != v.findings.end() ? chance_of(*blamed) : "no twin differs";
  }

  Verdict verdict_by(const std::optional<Drawn>& drawn, double level, double sure) {
    Verdict v = verdict_;
    std::map<std::string, Line> lines = lines_;
    std::optional<TwinsJudgement> twins;
    if (drawn) twins = twins_at(*drawn, level);
    std::optional<Accounts> accounts;
    if (told_)
      accounts.emplace(pairs_, *told_, replays_, twins ? held_by(*twins) : std::set<std::string>());
    if (twins) add_twins(*twins, accounts, v, lines);
    if (accounts && asks("replay")) leave_open(*accounts, v, lines);
    put_in_order(v);
    blame(v, sure);
    if (options_.says_where) {
      const auto where = results<Profile>(options_.hands, v.findings.size(), [&](std::size_t i) {
        return where_it_is(v.findings[i]);
      });
      for (std::size_t i = 0; i < where.size(); ++i) v.findings[i].profile = where[i];
    }
    std::vector<LeftOpen> open;
    for (auto& [id, line] : lines) {
      const auto left_out = unjudged_.find(id);
      if (left_out != unjudged_.end() && line.statistic.empty()) {
        open.push_back({left_out->second, line.relative});
      } else {
        v.lines.push_back(std::move(line));
      }
    }
    explain_by_findings(v, open);
    const auto first = std::ranges::min_element(open, {}, [&](const LeftOpen& one) {
      return std::pair(!one.unexplained(), order_(one.what.id));
    });
    if (first != open.end() && first->unexplained() && ordered_) v.earliest = first->what.id;
    tell_what_is_open(std::move(open), v);
    std::stable_sort(v.lines.begin(), v.lines.end(),
                     [&](const Line& a, const Line& b) { return order_(a.id) < order_(b.id); });
    return v;
  }

  // What may be made from a tensor that is found needs no other reason.
  void explain_by_findings(const Verdict& v, std::vector<LeftOpen>& open) const {
    if (!ordered_ || !told_) return;
    std::set<std::string> found, ids;
    for (const Finding& f : v.findings) found.insert(f.id);
    for (const LeftOpen& one : open) ids.insert(one.what.id);
    const std::set<std::string> follow = maybe_made_from(found, ids, reference_.about);
    for (LeftOpen& one : open) {
      if (!one.unexplained() || !follow.contains(one.what.id)) continue;
      one.what.kind = Unjudged::Kind::made_of_such;
      one.what.why = "may be made from a tensor that is found";
    }
  }

  // A finding of the twins that one row alone causes may be a rare flip at a rounding boundary:
  // then replay decides (twins.md V3). Replay also decides where all twins were silent.
  void add_twins(const TwinsJudgement& seen, std::optional<Accounts>& accounts, Verdict& v,
                 std::map<std::string, Line>& lines) {
    v.tests = seen.tests;
    v.vacuous = seen.vacuous;
    v.smallest_scale = seen.smallest_scale;
    for (const Together& one : seen.together) {
      if (!seen.findings.empty()) break;
      v.notes.push_back(fmt::format(
          "the norm of all gradients{} is 1 {} {:.2g} of the reference's; 1 +- {:.2g} would be found",
          one.clipped ? " behind the clip" : "", one.longer < 0 ? '-' : '+', std::fabs(one.longer),
          one.allowed));
    }
    if (seen.common_slope) v.notes.push_back(in_words(*seen.common_slope));
    v.could_fail = v.could_fail || seen.could_fail;
    for (const auto& [id, worst] : seen.worst) {
      take(lines.at(id), worst.statistic, worst.ratio);
      lines.at(id).p = worst.p;
    }
    for (Finding f : seen.findings) {
      const bool one_row = seen.one_row.contains(f.id);
      const auto passes = one_row ? replays_.passes(f.id) : false;
      const bool rare = passes.value_or(told_.has_value());
      if (rare && accounts && !accounts->holds(f.id)) v.unsettled.insert(f.id);
      if (asserted_.contains(f.id))
        f.detail =
            fmt::format("differs by {:.2g} of its size, and no twin does; --exact says it is equal",
                        lines.at(f.id).relative);
      (rare ? v.undecided : v.findings).push_back(std::move(f));
    }
    for (const Finding& f : seen.undecidable) {
      (replays_.passes(f.id) == true ? v.undecided : v.findings).push_back(f);
    }
  }

  TwinsJudgement twins_at(const Drawn& drawn, double level) const {
    CheckOptions at_level = options_;
    at_level.false_alarm = level;
    at_level.together = !options_.given.empty() && by_twins_ == &c_;
    const bool remakes = candidate_.graph && merged_c_ != nullptr && options_.given.empty();
    return conclude(drawn, *by_twins_, at_level,
                    remakes ? Remake{&*candidate_.graph, &merged_c_->values} : Remake{});
  }

  // A tensor that replay alone acquits is judged if it is accounted for: an operation that is right by
  // itself says nothing of what it was given.
  void leave_open(Accounts& accounts, Verdict& v, std::map<std::string, Line>& lines) {
    for (auto& [id, line] : lines) {
      if (line.statistic != "replay" || line.ratio > 1) continue;
      const bool judged = !unjudged_.contains(id) || accounts.holds(id);
      v.could_fail = v.could_fail || judged;
      if (!judged) line.statistic.clear();
    }
  }

  // Where in its tensor it is, also of a finding that does not say so by itself.
  Profile where_it_is(const Finding& f) const {
    if (f.profile.rows > 0 || !judgeable(f.id)) return f.profile;
    return where_they_differ(c_.values.at(f.id), r_.values.at(f.id));
  }

  void put_in_order(Verdict& v) const {
    for (auto* findings : {&v.findings, &v.undecided}) {
      // Nothing upstream makes a message wrong: its ranks gave what they had.
      std::ranges::stable_sort(*findings, {}, [&](const Finding& f) {
        return std::pair(!is_message(f.id), order_(f.id));
      });
    }
  }

  // Where nobody knows the order of dataflow, nobody can say who was first.
  void blame(Verdict& v, double sure) const {
    if (v.findings.empty() || !ordered_) return;
    Finding& first = v.findings.front();
    first.may_follow = false;  // nothing upstream is wrong
    const Finding& f = to_blame(v.findings, sure);
    v.blamed = f.id;
    v.blamed_by = f.statistic;
    if (is_wrong_by_itself(f) || f.id == first.id) return;
    v.notes.push_back(fmt::format("upstream of who is blamed {} is found, which may be chance ({})",
                                  first.id, chance_of(first)));
  }

  const CheckOptions& options_;
  const bool given_choices_;
  const Trace& reference_;
  const Trace& candidate_;
  const Merged *merged_r_, *merged_c_;  // of what promises something
  const Run &r_, &c_;
  const Run* by_twins_ =
      &c_;  // is judged by them: the reference, where they lie around the candidate
  const Pairs& pairs_;
  Selection select_;
  DataflowOrder order_;
  Verdict verdict_;
  std::map<std::string, Line> lines_;
  bool ordered_ = false;                      // does anybody know the order of dataflow?
  std::set<std::string> not_finite_;          // findings of structure: no statistic holds them
  std::map<std::string, Unjudged> unjudged_;  // by given twins, or by what producers say
  std::set<std::string> asserted_;            // of given twins
  std::optional<Drawn> drawn_, drawn_again_;  // of the rule twins; of a second look
  std::optional<PartialPromise> told_;        // where nothing is promised
  Replays replays_{nullptr};
};

}  // namespace

static std::vector<Judged> judged_as(const ToJudge& reference, const ToJudge& candidate,
                                     bool given_choices, const std::vector<CheckOptions>& ways) {
  const Both both(reference, candidate, ways);
  std::vector<Judged> all;
  for (const CheckOptions& options : ways) {
    std::vector<double> levels{options.false_alarm};
    levels.insert(levels.end(), options.other_levels.begin(), options.other_levels.end());
    all.push_back(Check(reference, candidate, both, given_choices, options).run(levels));
  }
  return all;
}

static std::vector<Judged> judged(const ToJudge& reference, const ToJudge& candidate,
                                  const std::vector<CheckOptions>& ways) {
  refuse_another_run(reference.trace.manifest, candidate.trace.manifest);
  if (!reference.trace.graph || !candidate.trace.graph)
    return judged_as(reference, candidate, false, ways);
  Forced as_chosen =
      forced(*reference.trace.graph, reference.merged->values, candidate.merged->values);
  Merged conditional = *reference.merged;
  conditional.values = std::move(as_chosen.values);
  std::vector<Judged> all =
      judged_as({reference.trace, &conditional}, candidate, as_chosen.differ, ways);
  for (Judged& judgement : all) {
    for (Verdict& verdict : judgement.verdicts) {
      verdict.decisions = as_chosen.decisions;
      verdict.forced = as_chosen.rows;
    }
  }
  return all;
}

Judged judge_runs(const Reference& reference, const Trace& candidate,
                  const Merged& merged_candidate, const CheckOptions& options) {
  return std::move(
      judged({reference.trace(), &reference.merged()}, {candidate, &merged_candidate}, {options})
          .front());
}

std::vector<Verdict> check_each(const Reference& reference, const Trace& candidate,
                                const Merged& merged_candidate,
                                const std::vector<CheckOptions>& ways) {
  std::vector<Verdict> all;
  for (Judged& one :
       judged({reference.trace(), &reference.merged()}, {candidate, &merged_candidate}, ways))
    all.push_back(std::move(one.verdicts.front()));
  return all;
}

Verdict check(const Reference& reference, const Trace& candidate, const Merged& merged_candidate,
              const CheckOptions& options) {
  return judge_runs(reference, candidate, merged_candidate, options).verdicts.front();
}

Verdict check(const ToJudge& reference, const ToJudge& candidate, const CheckOptions& options) {
  // Before a step is spent.
  refuse_another_run(reference.trace.manifest, candidate.trace.manifest);
  options.progress("is the reference what it promises?");
  if (reference.merged != nullptr) Reference(reference.trace, *reference.merged);
  return judged(reference, candidate, {options}).front().verdicts.front();
}

Verdict check(const Trace& reference, const Merged& merged_reference, const Trace& candidate,
              const Merged& merged_candidate, const CheckOptions& options) {
  return check(ToJudge{reference, &merged_reference}, ToJudge{candidate, &merged_candidate},
               options);
}

Verdict check(const Trace& reference, const Trace& candidate, const CheckOptions& options) {
  std::optional<Merged> r, c;
  if (reference.graph) r = merge(reference);
  if (candidate.graph) c = merge(candidate);
  return check(ToJudge{reference, r ? &*r : nullptr}, ToJudge{candidate, c ? &*c : nullptr},
               options);
}

}  // namespace plumb::trace
