// What replay says of two runs: of each result by what it was made of, as a promise or the producers
// tell it; of messages, losses and gradients behind a clip by what they say of themselves.
#include <fmt/format.h>

#include <algorithm>

#include "number/words.hpp"
#include "trace/clip.hpp"
#include "trace/decisions.hpp"
#include "trace/evidence.hpp"
#include "trace/loss.hpp"
#include "trace/messages.hpp"

namespace plumb::trace {
namespace {

// Does a producer say that it clipped other gradients than those it traced?
bool lacks_clipped(const Trace& trace) { return trace.manifest.may_differ.contains("clipped"); }

// "a is", "a and 2 more are".
std::string are(const std::vector<std::string>& ids) {
  return ids.size() == 1 ? ids.front() + " is"
                         : fmt::format("{} and {} more are", ids.front(), ids.size() - 1);
}

}  // namespace

// The optimizer's states: twins would judge gradients once more, by squares that have heavy tails.
bool Evidence::left_to_replay(const std::string& id) const {
  return told && asks("replay") && told->is_update(id);
}

// What ranks sent each other, by what they gave.
bool Evidence::apply_to_messages() {
  const Replayed seen = judge_messages(*candidate.messages);
  so_far.notes.push_back(fmt::format("replay judges {} of the candidate by what its ranks gave",
                                     how_many(seen.ratios.size(), "collective")));
  for (const Finding& f : seen.findings) tell(f);
  for (const NotJudged& one : seen.not_judged) so_far.not_judged.push_back(one);
  return !seen.ratios.empty() || !seen.findings.empty();
}

// What losses hand on, by their logits. One that fits acquits nothing: its weight may be wrong.
bool Evidence::apply_to_losses() {
  if (candidate.manifest.settings.contains("sketch")) return false;
  const LossesSeen seen = losses(
      r, reference.about, c,
      [&](const std::string& id) { return has_statistics(id) && !pairs.at(id).equal; }, by_card(),
      options.hands);
  for (const Finding& f : seen.findings) {
    lines.at(f.id).take("replay", f.ratio);
    so_far.findings.push_back(f);
  }
  for (const NotJudged& one : seen.not_judged) so_far.not_judged.push_back(one);
  if (!seen.fit.empty()) {
    so_far.notes.push_back(fmt::format(
        "{} what a cross entropy makes of its logits, but for a weight", are(seen.fit)));
  }
  if (!seen.of_no_loss.empty()) {
    so_far.notes.push_back(fmt::format(
        "{} not what a cross entropy makes of its logits, in the reference either: replay does not judge it",
        are(seen.of_no_loss)));
  }
  return !seen.fit.empty() || !seen.findings.empty();
}

// Gradients behind a clip, by those before it.
bool Evidence::apply_to_clips() {
  if (candidate.manifest.settings.contains("sketch")) return false;
  std::vector<Run> twins;
  for (const Trace* twin : options.given) {
    if (by_twins == &c) twins.emplace_back(*twin);  // of the reference
  }
  ClipSeen seen = clips(
      r, c, twins, !lacks_clipped(reference) && !lacks_clipped(candidate),
      held_in_summands(candidate),
      [&](const std::string& id) { return has_statistics(id) && !pairs.at(id).equal; },
      options.hands);
  for (Finding& f : seen.findings) {
    lines.at(f.id).take("replay", f.ratio);
    so_far.findings.push_back(std::move(f));
  }
  if (!seen.note.empty()) so_far.notes.push_back(std::move(seen.note));
  return seen.judged;
}

void Evidence::apply_replay() {
  bool judged = candidate.messages && apply_to_messages();
  if (told) {
    judged = apply_to_losses() || judged;
    judged = apply_to_clips() || judged;
  }
  const Replayed seen = replays.of([&](const auto& id) { return lines.contains(id); });
  for (const auto& [id, ratio] : seen.ratios) {
    if (lines.contains(id)) lines.at(id).take("replay", ratio);
  }
  if (!told) so_far.could_fail = so_far.could_fail || !seen.ratios.empty();
  for (const Finding& f : seen.findings) {
    if (lines.contains(f.id)) so_far.findings.push_back(f);
  }
  for (const NotJudged& one : seen.not_judged) so_far.not_judged.push_back(one);
  if (told) say_what_was_told(seen);
  if (told && !judged && seen.ratios.empty() && so_far.rules.size() > 1)
    std::erase(so_far.rules, "replay");  // it says nothing
}

void Evidence::say_what_was_told(const Replayed& seen) {
  for (const NotJudged& one : told->left_out()) so_far.not_judged.push_back(one);
  if (!told->empty()) {
    so_far.notes.push_back(fmt::format(
        "replay judges {} of {}, as producers say how these were made, by the bounds of {}",
        seen.ratios.size(), how_many(lines.size(), "tensor"),
        options.replay.machine == nullptr ? "the operations alone"
                                          : "the machine " + options.replay.machine->id));
  }
  if (const std::size_t n = told->in_any_rank_order(); n > 0) {
    so_far.notes.push_back(fmt::format(
        "of {} more than two ranks share the sum; the bounds hold for every order in which they "
        "may add",
        how_many(n, "call")));
  }
  for (const auto& [id, line] : lines) {
    if (!left_to_replay(id) || seen.ratios.contains(id) || pairs.at(id).equal) continue;
    unjudged[id] = {id, "of the optimizer, and could not be replayed",
                    Unjudged::Kind::of_optimizer};
  }
  if (asks("twins")) return;
  for (const auto& [id, line] : lines) {
    if (!pairs.contains(id) || pairs.at(id).equal) continue;
    const bool known = seen.ratios.contains(id);
    unjudged[id] = {
        id, known ? "is made from a tensor that is not judged" : "nobody says how it was made",
        known ? Unjudged::Kind::made_of_such : Unjudged::Kind::unexplained};
  }
}

// Twins left them to replay. They do not judge them, and know what is too far off to be no mistake.
void Evidence::doubt_updates_that_nobody_replayed() {
  for (auto& [id, what] : unjudged) {
    if (!left_to_replay(id) || what.kind != Unjudged::Kind::of_optimizer || !far_beyond_(id))
      continue;
    what.kind = Unjudged::Kind::unexplained;
    what.why += ", and far beyond all twins";
  }
}

// Replays choices and followed roundings whatever the rules: the other rules take them as given.
void Evidence::replay_what_was_followed() {
  if (!candidate.graph || !replays.none_yet()) return;
  std::set<std::string> taken = decisions_of(*candidate.graph);
  if (drawn) taken.insert(drawn->followed.begin(), drawn->followed.end());
  replay_each(taken);
}

void Evidence::replay_each(const std::set<std::string>& taken) {
  const Replayed seen =
      replays.of([&](const auto& id) { return taken.contains(id) && lines.contains(id); });
  for (const Finding& f : seen.findings) so_far.findings.push_back(f);
  for (const NotJudged& one : seen.not_judged) so_far.not_judged.push_back(one);
}

Accounts::NodeOf Evidence::node_of() const {
  if (told) return [this](const std::string& id) { return told->node_of(id); };
  std::map<std::string, const Node*> makers;
  if (candidate.graph) {
    for (const Node& node : candidate.graph->nodes) {
      for (const std::string& id : node.outputs) makers.emplace(id, &node);
    }
  }
  return [makers = std::move(makers)](const std::string& id) {
    const auto found = makers.find(id);
    return found == makers.end() ? nullptr : found->second;
  };
}

// What replay is to judge by, at the level of the whole verdict.
ReplayOptions Evidence::by_card() const {
  ReplayOptions by = options.replay;
  by.false_alarm = options.false_alarm;
  return by;
}

}  // namespace plumb::trace
