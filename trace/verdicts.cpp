#include "trace/verdicts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>

#include "trace/order.hpp"
#include "trace/store/carried.hpp"
#include "trace/where.hpp"

namespace plumb::trace {
namespace {

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
  std::vector<NotJudged> told;
  for (const auto& [what, relative] : open)
    told.push_back({what.id, fmt::format("by {:.2g} of its size; {}", relative, what.why)});
  v.not_judged.insert(v.not_judged.begin(), told.begin(), told.end());
}

std::string chance_of(const Finding& f) {
  return f.p ? fmt::format("p = {:.1e}", *f.p) : "no twin differs";
}

// Of who is blamed.
std::string chance_of(const Verdict& v) {
  const auto blamed = std::ranges::find(v.findings, v.blamed, &Finding::id);
  return blamed != v.findings.end() ? chance_of(*blamed) : "no twin differs";
}

}  // namespace

Verdicts::Verdicts(Evidence& evidence) : evidence_(evidence) {
  if (evidence_.drawn) first_tests_.emplace(*evidence_.drawn, evidence_.options.spreads);
}

Verdict Verdicts::at(double level) {
  const double sure = level / stricter;
  if (!evidence_.options.second_look || !first_tests_ || !evidence_.options.given.empty()) {
    return by(first_tests_, level, sure);
  }
  Verdict first = by(first_tests_, level_of_first_look(level), sure);
  const std::vector<Finding>& seen = first.findings;
  if (seen.empty() && first.undecided.empty()) return first;
  if (seen.empty() || !std::ranges::all_of(seen, is_by_size_of_twins)) {
    Verdict at_once = by(first_tests_, level, sure);
    at_once.smallest_scale = first.smallest_scale;
    return at_once;
  }
  if (!second_tests_) look_again();
  Verdict second = by(second_tests_, level_of_second_look(level), sure);
  second.flips = drawn_again_->flips;
  second.looked_again = true;
  second.smallest_scale = std::max(first.smallest_scale, second.smallest_scale);
  if (second.findings.empty()) {
    second.notes.push_back(fmt::format("by {} twins {} stands out ({} at {}); {} twins acquit it",
                                       evidence_.options.twins, first.blamed, first.blamed_by,
                                       chance_of(first), more_twins * evidence_.options.twins));
  }
  return second;
}

// These twins may follow the candidate where the first did not: replay judges that, too.
void Verdicts::look_again() {
  drawn_again_ = evidence_.draw(more_twins * evidence_.options.twins);
  second_tests_.emplace(*drawn_again_, evidence_.options.spreads);
  std::set<std::string> followed = drawn_again_->followed;
  for (const std::string& id : evidence_.drawn->followed) followed.erase(id);
  if (!evidence_.asks("replay") && !followed.empty()) evidence_.replay_each(followed);
}

Verdict Verdicts::by(const std::optional<TwinTests>& tests, double level, double sure) {
  Verdict v = evidence_.so_far;
  std::map<std::string, Line> lines = evidence_.lines;
  std::optional<TwinsJudgement> twins;
  if (tests) twins = twins_at(*tests, level);
  std::optional<Accounts> accounts;
  if (evidence_.told || !evidence_.looks_at_all())
    accounts.emplace(evidence_.pairs, evidence_.node_of(), evidence_.replays,
                     twins ? held_by(*twins) : std::set<std::string>());
  if (twins) add_twins(*twins, accounts, v, lines);
  if (evidence_.told && evidence_.asks("replay")) leave_open(*accounts, v, lines);
  put_in_order(v.findings, evidence_.order);
  put_in_order(v.undecided, evidence_.order);
  blame(v, sure);
  if (evidence_.options.says_where) {
    const auto where = results<Profile>(evidence_.options.hands, v.findings.size(),
                                        [&](std::size_t i) { return where_it_is(v.findings[i]); });
    for (std::size_t i = 0; i < where.size(); ++i) v.findings[i].profile = where[i];
  }
  std::vector<LeftOpen> open = take_open(v, lines);
  if (!evidence_.looks_at_all()) open_what_is_made_of_unseen(v, lines, *accounts, open);
  std::vector<std::pair<std::size_t, Line>> judged;  // and the places of their tensors
  for (auto& [id, line] : lines) judged.emplace_back(evidence_.order(id), std::move(line));
  std::ranges::stable_sort(judged, {}, &std::pair<std::size_t, Line>::first);
  for (auto& [place, line] : judged) v.lines.push_back(std::move(line));
  explain_by_findings(v, open);
  open_what_follows_from_none(v, open);
  const auto first = std::ranges::min_element(open, {}, [&](const LeftOpen& one) {
    return std::pair(!one.unexplained(), evidence_.order(one.what.id));
  });
  if (first != open.end() && first->unexplained() && evidence_.ordered) v.earliest = first->what.id;
  tell_what_is_open(std::move(open), v);
  return v;
}

// Takes out the lines of tensors that are left open: a rule that knows nothing of rounding does not close
// them. Others that differ have lines that nothing judged.
std::vector<LeftOpen> Verdicts::take_open(const Verdict& v,
                                          std::map<std::string, Line>& lines) const {
  std::set<std::string> found;
  for (const Finding& f : v.findings) found.insert(f.id);
  std::vector<LeftOpen> open;
  for (auto one = lines.begin(); one != lines.end();) {
    auto& [id, line] = *one;
    const auto known = evidence_.unjudged.find(id);
    if (known != evidence_.unjudged.end() && !line.by_rounding && !found.contains(id)) {
      open.push_back({known->second, line.relative});
      one = lines.erase(one);
      continue;
    }
    line.judged = !line.statistic.empty() || found.contains(id) || evidence_.pairs.at(id).equal;
    ++one;
  }
  return open;
}

// Tensors that are not looked at are replayed for what is made of them.
bool Verdicts::is_accounted_for(const std::string& id, Accounts& accounts) const {
  if (!evidence_.looks_at_all()) evidence_.replays.all();
  return accounts.holds(id);
}

// What replay alone acquits may be made from a tensor that is wrong and not looked at.
void Verdicts::open_what_is_made_of_unseen(const Verdict& v, std::map<std::string, Line>& lines,
                                           Accounts& accounts, std::vector<LeftOpen>& open) const {
  if (!v.findings.empty()) return;
  const Replays& replays = evidence_.replays;
  const auto by_replay_alone = [&](const auto& one) {
    const auto& [id, line] = one;
    return line.by_rounding && !line.p && replays.known(id) && !evidence_.pairs.at(id).equal;
  };
  for (auto one = lines.begin(); one != lines.end();) {
    const auto& [id, line] = *one;
    if (!by_replay_alone(*one) || is_accounted_for(id, accounts)) {
      ++one;
      continue;
    }
    open.push_back(
        {{id, "may be made from a tensor that is not looked at", Unjudged::Kind::unexplained},
         line.relative});
    one = lines.erase(one);
  }
}

// What may be made from a tensor that is found needs no other reason.
void Verdicts::explain_by_findings(const Verdict& v, std::vector<LeftOpen>& open) const {
  if (!evidence_.ordered || !evidence_.told) return;
  std::set<std::string> found, ids;
  for (const Finding& f : v.findings) found.insert(f.id);
  for (const LeftOpen& one : open) ids.insert(one.what.id);
  const std::set<std::string> follow = maybe_made_from(found, ids, evidence_.reference.about);
  for (LeftOpen& one : open) {
    if (!one.unexplained() || !follow.contains(one.what.id)) continue;
    one.what.kind = Unjudged::Kind::made_of_such;
    one.what.why = "may be made from a tensor that is found";
  }
}

// What may be made from a tensor that is not judged is as open as that one is. Where replay acquits it, or it
// is not looked at, it is no reason: that what is behind it follows from rounding nobody knows.
void Verdicts::open_what_follows_from_none(const Verdict& v, std::vector<LeftOpen>& open) const {
  std::set<std::string> reasons, ids;
  for (const Finding& f : v.findings) reasons.insert(f.id);
  for (const LeftOpen& one : open) {
    if (one.unexplained()) reasons.insert(one.what.id);
    ids.insert(one.what.id);
  }
  const std::set<std::string> follow = maybe_made_from(reasons, ids, evidence_.reference.about);
  for (LeftOpen& one : open) {
    if (one.what.kind != Unjudged::Kind::made_of_such || follow.contains(one.what.id)) continue;
    one.what.kind = Unjudged::Kind::unexplained;
    one.what.why =
        "may be made from a tensor that no twin judges: replay acquits that one, or it is not looked "
        "at, and nobody judges this one";
  }
}

// A finding of the twins that one row alone causes may be a rare flip at a rounding boundary:
// then replay decides (twins.md V3). Replay also decides where all twins were silent.
void Verdicts::add_twins(const TwinsJudgement& seen, std::optional<Accounts>& accounts, Verdict& v,
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
  if (seen.apart && seen.findings.empty()) {
    v.apart = true;
    v.notes.push_back(fmt::format(
        "twin {} stands apart from the others, farthest in {} (p = {:.1e}), and they alone would find "
        "something in the candidate: one of both is wrong. Make it again, or leave it out",
        seen.apart->twin + 1, seen.apart->id, seen.apart->chance));
  }
  if (seen.common_slope) v.notes.push_back(in_words(*seen.common_slope));
  v.could_fail = v.could_fail || seen.could_fail;
  for (const auto& [id, worst] : seen.worst) {
    lines.at(id).take(worst.statistic, worst.ratio);
    lines.at(id).p = worst.p;
  }
  for (Finding f : seen.findings) {
    const bool one_row = seen.one_row.contains(f.id);
    const auto passes = one_row ? evidence_.replays.passes(f.id) : false;
    const bool rare = passes.value_or(evidence_.told.has_value());
    if (rare && accounts && !is_accounted_for(f.id, *accounts)) v.unsettled.insert(f.id);
    if (evidence_.asserted.contains(f.id))
      f.detail =
          fmt::format("differs by {:.2g} of its size, and no twin does; --exact says it is equal",
                      lines.at(f.id).relative);
    (rare ? v.undecided : v.findings).push_back(std::move(f));
  }
  for (const Finding& f : seen.undecidable) {
    (evidence_.replays.passes(f.id) == true ? v.undecided : v.findings).push_back(f);
  }
}

TwinsJudgement Verdicts::twins_at(const TwinTests& tests, double level) const {
  CheckOptions at_level = evidence_.options;
  at_level.false_alarm = level;
  at_level.around_candidate = evidence_.by_twins != &evidence_.c;
  at_level.together = !evidence_.options.given.empty() && evidence_.by_twins == &evidence_.c;
  const bool remakes = evidence_.candidate.graph && evidence_.merged_candidate != nullptr &&
                       evidence_.options.given.empty();
  return conclude(tests, *evidence_.by_twins, at_level,
                  remakes ? Remake{&*evidence_.candidate.graph, &evidence_.merged_candidate->values}
                          : Remake{});
}

// A tensor that replay alone acquits is judged if it is accounted for: an operation that is right by
// itself says nothing of what it was given.
void Verdicts::leave_open(Accounts& accounts, Verdict& v, std::map<std::string, Line>& lines) {
  for (auto& [id, line] : lines) {
    if (evidence_.replays.known(id).value_or(2) > 1) continue;
    const bool holds = accounts.holds(id);
    v.could_fail = v.could_fail || holds;
    if (holds || !evidence_.unjudged.contains(id)) continue;
    line.by_rounding = false;
    if (line.statistic == "replay") line.statistic.clear();
  }
}

// Where in its tensor it is, also of a finding that does not say so by itself.
Profile Verdicts::where_it_is(const Finding& f) const {
  if (f.profile.rows > 0 || !evidence_.judgeable(f.id)) return f.profile;
  return where_they_differ(evidence_.c.values.at(f.id), evidence_.r.values.at(f.id));
}

// Where nobody knows the order of dataflow, nobody can say who was first.
void Verdicts::blame(Verdict& v, double sure) const {
  if (v.findings.empty() || !evidence_.ordered) return;
  Finding& first = v.findings.front();
  first.may_follow = false;  // nothing upstream is wrong
  const Finding& f = to_blame(v.findings, sure);
  v.blamed = f.id;
  v.blamed_by = f.statistic;
  if (is_wrong_by_itself(f) || f.id == first.id) return;
  v.notes.push_back(fmt::format("upstream of who is blamed {} is found, which may be chance ({})",
                                first.id, chance_of(first)));
}

}  // namespace plumb::trace
