#include "experiments/scene.hpp"

#include <algorithm>
#include <utility>

#include "model/plan/verify.hpp"

namespace plumb::experiments {
namespace {

bool asks_for_perturbed(const CheckOptions& way) {
  return std::ranges::find(way.rules, "perturbation") != way.rules.end();
}

}  // namespace

Scene::Scene(const Start& first, bool late, std::vector<CheckOptions> ways, Rewriting rewriting)
    : first_(first),
      start_(judged_start(first, late, rewriting)),
      reference_(start_),
      healthy_(run_candidate(start_, nullptr)),
      merged_healthy_(merge_verified(healthy_.trace)),
      ways_(std::move(ways)) {
  const bool another = late || rewriting != Rewriting::none;
  for (CheckOptions& way : ways_) {
    if (!asks_for_perturbed(way) || (way.perturbed != nullptr && !another)) continue;
    if (!perturbed_) perturbed_ = run_perturbed(start_, 1);
    way.perturbed = &*perturbed_;
  }
}

Scene::Broken Scene::broken(const Planted& wrong) const {
  Candidate run = run_broken(first_, start_, wrong);
  Merged merged = merge_verified(run.trace);
  Trial changes = changes_of(healthy_, run, wrong, merged_healthy_, merged);
  return {std::move(run), std::move(merged), std::move(changes)};
}

std::vector<Trial> Scene::judged(const Broken& broken) {
  if (of_healthy_.empty())
    of_healthy_ = check_each(reference_.to_judge(), healthy_.trace, merged_healthy_, ways_);
  std::vector<Verdict> verdicts =
      check_each(reference_.to_judge(), broken.run.trace, broken.merged, ways_);
  std::vector<Trial> trials(ways_.size(), broken.changes);
  for (std::size_t i = 0; i < ways_.size(); ++i) {
    trials[i].healthy = of_healthy_[i];
    trials[i].broken = std::move(verdicts[i]);
    trials[i].blamed_right = trials[i].broken.blamed == trials[i].bites_at;
  }
  return trials;
}

std::vector<Trial> run_trials(const Start& first, const Planted& wrong,
                              const std::vector<CheckOptions>& ways, Rewriting rewriting) {
  return Scene(first, wrong.in_the_next_step, ways, rewriting).trials(wrong);
}

std::vector<Trial> run_trials(const Start& first, const Bug& bug, const Dose& dose,
                              const std::vector<CheckOptions>& ways, Rewriting rewriting) {
  return run_trials(first, planted(bug, dose, first.run.config), ways, rewriting);
}

Trial run_trial(const Start& start, const Bug& bug, const Dose& dose, const CheckOptions& options,
                Rewriting rewriting) {
  return run_trials(start, bug, dose, {options}, rewriting).front();
}

}  // namespace plumb::experiments
