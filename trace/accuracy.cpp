#include "trace/accuracy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "number/outcome.hpp"
#include "number/words.hpp"
#include "trace/comparable.hpp"
#include "trace/pairs.hpp"

namespace plumb::trace {
namespace {

// Recipes of plumb, and what other producers call theirs.
constexpr const char* of_recipes[] = {"recipe", "dtype", "precision", "autocast"};

bool is_data(const std::string& id) {
  return id.starts_with("data/") || id.find("/data/") != std::string::npos;
}

void refuse_other_data(const Pairs& pairs) {
  for (const auto& [id, pair] : pairs) {
    if (!is_data(id) || pair.equal) continue;
    throw Failure("the better run has other data than the reference, or lacks them ('" + id +
                  "'); trace it with the seed, step and sizes of the reference");
  }
}

}  // namespace

double Accuracy::ratio() const {
  if (reference == candidate) return 1;
  return candidate / reference;
}

Accuracies accuracies(Run better, Run reference, Run candidate,
                      const std::function<bool(const std::string& id)>& asked, const Hands& hands) {
  const Pairs of_reference = compare(better, reference, {.hands = hands});
  const Pairs of_candidate = compare(better, candidate, {.hands = hands});
  refuse_other_data(of_reference);
  Accuracies all;
  for (const auto& [id, pair] : of_reference) {
    const auto other = of_candidate.find(id);
    if (!pair.both || other == of_candidate.end() || !other->second.both || !asked(id)) continue;
    all[id] = {pair.difference.relative(), other->second.difference.relative()};
  }
  if (all.empty()) {
    throw Failure("the better run has none of the tensors that are judged; trace it as the others");
  }
  return all;
}

void refuse_no_better(const Manifest& reference, const Manifest& better) {
  Manifest same = better;
  for (const char* key : of_recipes) {
    same.settings.erase(key);
    const auto found = reference.settings.find(key);
    if (found != reference.settings.end()) same.settings[key] = found->second;
  }
  refuse_another_run(reference, same, "better run");
}

static double median_error_of_reference(const Accuracies& all) {
  std::vector<double> errors;
  for (const auto& [id, of] : all) errors.push_back(of.reference);
  std::ranges::sort(errors);
  return errors[errors.size() / 2];
}

std::string summary(const Accuracies& all) {
  const auto none = [&](double Accuracy::*errs) {
    return std::ranges::all_of(all, [&](const auto& one) { return one.second.*errs == 0; });
  };
  if (none(&Accuracy::reference) || none(&Accuracy::candidate)) {
    return fmt::format(
        "the better run is the {}, bit by bit, and says nothing of errors; give one that computed the "
        "same in more digits",
        none(&Accuracy::reference) ? "reference" : "candidate");
  }
  constexpr double another = 0.5;  // of its size: no digit is the same
  if (!(median_error_of_reference(all) < another)) {
    return fmt::format(
        "the better run is another than the reference: half of {} lie {:.2g} times their size apart or "
        "more; give one of the same step that computed it in more digits",
        how_many(all.size(), "tensor"), median_error_of_reference(all));
  }
  std::vector<std::pair<double, std::string>> ratios;
  for (const auto& [id, errors] : all) {
    const double ratio = errors.ratio();
    ratios.emplace_back(std::isnan(ratio) ? std::numeric_limits<double>::infinity() : ratio, id);
  }
  std::ranges::sort(ratios);
  return fmt::format(
      "against the better run the candidate errs {:.3g} times as much as the reference (median of "
      "{}; {:.3g} times at {}, {:.3g} times at {})",
      ratios[ratios.size() / 2].first, how_many(all.size(), "tensor"), ratios.front().first,
      ratios.front().second, ratios.back().first, ratios.back().second);
}

}  // namespace plumb::trace
