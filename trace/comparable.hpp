// trace/comparable.hpp: may these two traces be held against each other, and is the one a
// reference?
//
// TESTED   tests/model/attacks_test.cpp, tests/cli/verbs_test.cpp, tests/experiments/scene_test.cpp
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trace/merge.hpp"
#include "trace/sees.hpp"

namespace plumb::trace {

// Throws Failure unless both are of one step and one configuration: every setting of their
// manifests is the same but for how they are spread over ranks and in which order products add.
// `other`: what failures call the second.
void refuse_another_run(const Manifest& reference, const Manifest& candidate,
                        const std::string& other = "candidate");

// What candidates are held against. What is judged against a reference that is none would be judged
// by nothing: it has to be whole and finite, and to hold what each operation that it promises makes
// of its inputs. That is judged once, when it is made, for all candidates.
class Reference {
 public:
  // Both have to outlive it. Throws Failure if it is none. COSTS one step where it has a promise.
  Reference(const Trace& trace, const Merged& merged);
  // Of a run that this process made by executing that promise, and has not let out of its hands: whether
  // its operations make what it holds is not asked again. COSTS nothing beside
  // the step.
  static Reference executed(const Trace& trace, const Merged& merged);

  const Trace& trace() const { return trace_; }
  const Merged& merged() const { return merged_; }

 private:
  struct Unasked {};
  Reference(const Trace& trace, const Merged& merged, Unasked);

  const Trace& trace_;
  const Merged& merged_;
};

// What a reader of a verdict should know of the two traces.
struct Alike {
  bool identical = false;          // one layout and equal bits: as a trace and itself
  bool ordered = false;            // by the promise, or the reference's order of execution
  std::vector<std::string> notes;  // sentences: equal bits, swapped, rewritten, no promise
};
// Has the candidate the reference's bits in each of its tensors, and are some of these kept in more digits
// than those of FP32, in which all are compared?
struct EqualBits {
  bool equal = false, of_fp32 = false;
};
Alike alike(const Trace& reference, const Run& of_reference, const Trace& candidate,
            const EqualBits& bits);

// Throws Failure if a reference is not whole, or has a tensor that is not finite and may not be so.
// `if_meant`: what else may be done about such a one. `is_left_out`: nobody looks at it.
void refuse_broken(const Run& reference, const std::function<bool(const Finding&)>& may_be,
                   const std::string& if_meant = "",
                   const std::function<bool(const Finding&)>& is_left_out = {});

}  // namespace plumb::trace
