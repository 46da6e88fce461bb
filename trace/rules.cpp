#include "trace/rules.hpp"

#include <algorithm>

#include "number/words.hpp"
#include "trace/clip.hpp"
#include "trace/loss.hpp"

namespace plumb::trace {

std::vector<std::string> all_rules() {
  return {"twins", "replay", "perturbation", "depth-law", "flat", "assert-close"};
}

bool asks_for(const CheckOptions& options, const std::string& rule) {
  return std::ranges::find(options.rules, rule) != options.rules.end();
}

void refuse_unknown_rules(const std::vector<std::string>& rules) {
  const auto known = all_rules();
  for (const std::string& rule : rules) {
    if (std::ranges::find(known, rule) == known.end()) throw Failure(unknown("rule", rule, known));
    if (std::ranges::count(rules, rule) > 1)
      throw Failure("the rule " + rule + " is asked for twice; once is enough");
  }
}

void refuse_nothing_to_judge(const Run& candidate, const Selection& select) {
  if (std::ranges::any_of(candidate.values, [&](const auto& v) { return select(v.first); })) return;
  if (!select.all()) {
    throw Failure(
        "the expressions of --only and --skip leave no tensor to judge; list ids with: "
        "plumb inspect TRACE");
  }
  const auto& broken = candidate.findings;
  throw Failure("the candidate has no whole tensor that could be judged" +
                (broken.empty() ? "" : ": '" + broken.front().id + "': " + broken.front().detail));
}

bool replay_has_ground(const Trace& reference, const Trace& candidate) {
  if (reference.graph || candidate.graph) return false;
  if (candidate.messages) return true;
  const Abouts& about = reference.about;
  return std::ranges::any_of(about, [&](const auto& one) {
    const auto& [id, says] = one;
    return says.made_by || !name_before_clip(id).empty() ||
           (says.order && about.contains(logits_of_gradient(id)));
  });
}

// A promise says where sums are split, and what twins move; given twins would be judged by less.
static void refuse_given_twins(const Trace& reference, const Trace& candidate,
                               const CheckOptions& options) {
  if (candidate.graph || reference.graph) {
    throw Failure(std::string(reference.graph ? "the reference" : "the candidate") +
                  " has a promise (graph.json), of which plumb makes twins itself; say how many "
                  "with --twins N, not which");
  }
  if (asks_for(options, "replay") && !replay_has_ground(reference, candidate)) {
    throw Failure(
        "the rule replay needs a promise (graph.json) or tensors that say how they were made "
        "(made_by), and these traces have neither; leave it out of --rule");
  }
}

void refuse_rules_without_ground(const Trace& reference, const Trace& candidate,
                                 const CheckOptions& options) {
  if (!options.given.empty()) return refuse_given_twins(reference, candidate, options);
  if (candidate.graph && reference.graph) return;
  const bool says_how = replay_has_ground(reference, candidate);
  const bool replay = asks_for(options, "replay") && !says_how;
  if (!asks_for(options, "twins") && !replay) return;
  throw Failure(std::string(reference.graph ? "the candidate" : "the reference") +
                " has no promise (graph.json), so the " +
                (says_how ? "rule twins" : "rules twins and replay") +
                " cannot work; give twins that its producer made (--twins TRACE TRACE ...), or "
                "choose the rule " +
                (says_how ? "replay, " : "") + "flat, depth-law, assert-close or perturbation");
}

void refuse_no_perturbed(const Run& reference, const Pairs& pairs, const DataflowOrder& order,
                         const CheckOptions& options) {
  const std::string make =
      "run the reference again with its first activation moved by one rounding (of plumb: train "
      "... --perturb 1 -o P; of a PyTorch program: PLUMB_PERTURB=1; then --perturbed P)";
  if (options.perturbed == nullptr) {
    throw Failure("rule perturbation needs a second reference; " + make);
  }
  bool moved = false;
  for (const auto& [id, tensor] : reference.values) {
    const auto& perturbed = pairs.at(id).perturbed;
    const bool same = perturbed && perturbed->equal;
    if (!perturbed || (!same && !order.made(id))) {
      throw Failure(
          "the perturbed trace is of another model, state or text than the reference, first at '" +
          id + "'; " + make);
    }
    if (!same && perturbed->difference.non_finite > 0 &&
        std::ranges::find(reference.not_finite, id, &Finding::id) == reference.not_finite.end()) {
      throw Failure("the perturbed trace is not finite at '" + id + "', where the reference is; " +
                    make);
    }
    moved = moved || !same;
  }
  const auto is_candidate = [](const auto& one) {
    const Pair& pair = one.second;
    if (!pair.both || !pair.perturbed) return true;
    const Difference &a = pair.difference, &b = pair.perturbed->difference;
    return a.squares == b.squares && a.own == b.own && a.largest == b.largest;
  };
  if (moved && std::ranges::all_of(pairs, is_candidate)) {
    throw Failure("the perturbed trace is the candidate, as far as all numbers say; " + make);
  }
  if (!moved) throw Failure("the perturbed trace is the reference itself, bit by bit; " + make);
}

}  // namespace plumb::trace
