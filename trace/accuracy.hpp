// trace/accuracy.hpp: how far two runs are from a third that computed the same step in more digits.
//
// No verdict: a candidate that errs as much as its reference may err elsewhere. It answers another
// question: is the one as good as the other, or better?
//
// COSTS    one read of the two runs each, two of the better one
// TESTED   tests/trace/accuracy_test.cpp, tests/cli/better_test.cpp
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>

#include "trace/hands.hpp"
#include "trace/merge.hpp"
#include "trace/sees.hpp"
#include "trace/trace.hpp"

namespace plumb::trace {

// Errors of one tensor against the better run's: |x - better| / |better|, Frobenius. Infinite where
// a number is not finite.
struct Accuracy {
  double reference = 0, candidate = 0;
  // The candidate's over the reference's; 1 where neither errs.
  double ratio() const;
};
using Accuracies = std::map<std::string, Accuracy>;  // by id, of the tensors that all three have

// Of the ids that are `asked` for. Throws Failure where the runs share none of them, or the
// better one lacks the reference's data.
Accuracies accuracies(Run better, Run reference, Run candidate,
                      const std::function<bool(const std::string& id)>& asked, const Hands& hands);

// Throws Failure unless both are of one step and one configuration, but for their recipes.
void refuse_no_better(const Manifest& reference, const Manifest& better);

// "the candidate errs 0.98 times as much as the reference against the better run, ...": the median,
// the least and the largest ratio. Or that the better run is one of both, or another altogether.
std::string summary(const Accuracies& all);

}  // namespace plumb::trace
