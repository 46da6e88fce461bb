#include "trace/check.hpp"

#include <utility>

#include "trace/decisions.hpp"
#include "trace/evidence.hpp"
#include "trace/verdicts.hpp"

namespace plumb::trace {

static std::vector<Judged> judged_as(const ToJudge& reference, const ToJudge& candidate,
                                     bool given_choices, const std::vector<CheckOptions>& ways) {
  const Both both(reference, candidate, ways);
  std::vector<Judged> all;
  for (const CheckOptions& options : ways) {
    std::vector<double> levels{options.false_alarm};
    levels.insert(levels.end(), options.other_levels.begin(), options.other_levels.end());
    Evidence evidence(reference, candidate, both, given_choices, options);
    Verdicts verdicts(evidence);
    Judged one;
    for (const double level : levels) one.verdicts.push_back(verdicts.at(level));
    one.drawn = std::move(evidence.drawn);
    all.push_back(std::move(one));
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
  return std::move(judge_runs(reference, candidate, merged_candidate, options).verdicts.front());
}

Verdict check(const ToJudge& reference, const ToJudge& candidate, const CheckOptions& options) {
  // Before a step is spent.
  refuse_another_run(reference.trace.manifest, candidate.trace.manifest);
  options.progress("is the reference what it promises?");
  if (reference.merged != nullptr) Reference(reference.trace, *reference.merged);
  return std::move(judged(reference, candidate, {options}).front().verdicts.front());
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
